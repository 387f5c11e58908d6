"""The ``nvme`` and ``ethtool`` commands of an instance, which answer EC2's counters and leave the rest to the machine.

The counters are pages that the region keeps up to date in files, which the instance can only read: one per volume
(volumes/shared_pages.py) and one per shaped interface (network/governor.py). The commands are shell scripts, because
an instance cannot rely on any Python.
"""

COUNTERS_DIRECTORY = "/run/ebs-counters"
ALLOWANCES_DIRECTORY = "/run/ena-allowances"

NVME_COMMAND = r"""#!/bin/sh
# Answers `nvme get-log DEVICE --log-id=0xd0`; every other request goes to the machine's own nvme.
pages=@PAGES@
own() {
    for candidate in /usr/sbin/nvme /usr/bin/nvme /sbin/nvme; do
        [ -x "$candidate" ] && exec "$candidate" "$@"
    done
    echo "nvme: only 'get-log --log-id=0xd0' is answered here, this machine has no nvme-cli" >&2
    exit 1
}
[ "$1" = get-log ] || own "$@"
device= id= length=4096 raw=
set -- "$@" --end-of-arguments
command=$1; shift
original=
while [ "$1" != --end-of-arguments ]; do
    case "$1" in
        --log-id=*) id=${1#*=} ;;
        --log-len=*) length=${1#*=} ;;
        --namespace-id=*|--lpo=*|--lsp=*|--lsi=*|--uuid-index=*|--output-format=*) ;;
        -i|--log-id) id=$2; original="$original $1"; shift ;;
        -l|--log-len) length=$2; original="$original $1"; shift ;;
        -n|--namespace-id|-o|-s|-S|-L|--output-format) original="$original $1"; shift ;;
        -i*) id=${1#-i} ;;
        -l*) length=${1#-l} ;;
        -b|--raw-binary) raw=yes ;;
        -*) ;;
        *) device=$1 ;;
    esac
    original="$original $1"
    shift
done
case "$id" in
    0xd0|0xD0|208) ;;
    *) own "$command" $original ;;
esac
[ "$(id -u)" = 0 ] || { echo "$device: Permission denied" >&2; exit 1; }
[ -b "$device" ] || { echo "$device: No such file or directory" >&2; exit 1; }
node=$device
[ ! -L "$device" ] || node=$(readlink -f "$device")  # a link only: thirty devices are read at a time
case "${node##*/}" in
    nvme*) ;;
    *) echo "$device: Inappropriate ioctl for device" >&2; exit 1 ;;
esac
page="$pages/${node##*/}"
[ -r "$page" ] || { echo "$device: not an Amazon Elastic Block Store NVMe device" >&2; exit 1; }
if [ -n "$raw" ]; then
    exec head -c "$((length))" "$page"
fi
echo "Device:$(basename "$device") log-id:208 namespace-id:0x1"
head -c "$((length))" "$page" | od -A x -t x1z -v
""".replace("@PAGES@", COUNTERS_DIRECTORY)

ETHTOOL_COMMAND = r"""#!/bin/sh
# Answers `ethtool -S INTERFACE`; every other request goes to the machine's own ethtool.
own() {
    for candidate in /usr/sbin/ethtool /sbin/ethtool /usr/bin/ethtool; do
        [ -x "$candidate" ] && exec "$candidate" "$@"
    done
    echo "ethtool: answered here is only '-S' with an interface whose network is shaped, and this machine has no" \
        "ethtool of its own" >&2
    exit 1
}
[ $# = 2 ] || own "$@"
case "$1" in
    -S|--statistics) ;;
    *) own "$@" ;;
esac
case "$2" in
    */*) own "$@" ;;
esac
page="@PAGES@/$2"
[ -f "$page" ] && [ -r "$page" ] || own "$@"
set -- $(od -A n -t u8 -v -N 40 "$page")
echo "NIC statistics:"
for name in bw_in bw_out pps conntrack linklocal; do
    echo "     ${name}_allowance_exceeded: $1"
    shift
done
""".replace("@PAGES@", ALLOWANCES_DIRECTORY)
