"""The ``nvme`` command of an instance: answers the EBS log page, leaves the rest to the machine's own.

The page itself is kept by the process that paces the volumes, in a file per device (volumes/shared_pages.py), shown
read-only in the instance. A shell script, because an instance's files cannot rely on any Python.
"""

COUNTERS_DIRECTORY = "/run/ebs-counters"

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
