"""The commands of an instance that its image would have: EC2's counters, the end of its boot, and its shutdown.

``nvme`` and ``ethtool`` answer EC2's counters and leave the rest to the machine. The counters are pages that the region
keeps up to date in files, which the instance can only read: one per volume (volumes/shared_pages.py) and one per shaped
interface (network/governor.py). All are shell scripts, because an instance cannot rely on any Python.
"""

COUNTERS_DIRECTORY = "/run/ebs-counters"
ALLOWANCES_DIRECTORY = "/run/ena-allowances"
BOOT_FINISHED = "/var/lib/cloud/instance/boot-finished"
FAILED_SCRIPTS = "/var/lib/cloud/instance/failed-scripts"
"""Names of the scripts of the user data whose last command failed; empty if none did."""

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

CLOUD_INIT_COMMAND = """#!/bin/sh
# Answers `cloud-init status [--wait] [--long]`.
[ "$1" = status ] || { echo "cloud-init: only 'status' is answered here" >&2; exit 2; }
shift
wait= long=
for option; do
    case "$option" in
        -w|--wait) wait=yes ;;
        -l|--long) long=yes ;;
        *) echo "cloud-init: status has no option $option here" >&2; exit 2 ;;
    esac
done
while [ -n "$wait" ] && [ ! -e @FINISHED@ ]; do sleep 0.05; done
[ -e @FINISHED@ ] || { echo 'status: running'; exit 0; }
failed=$(cat @FAILED@)
[ -n "$failed" ] || { echo 'status: done'; exit 0; }
echo 'status: error'
[ -z "$long" ] || printf 'errors:\\n\\t- scripts_user: failed: %s\\n' "$failed"
exit 1
""".replace("@FINISHED@", BOOT_FINISHED).replace("@FAILED@", FAILED_SCRIPTS)

_SHUTDOWN_COMMAND = """#!/bin/sh
# Ends this instance from inside: process 1 powers off at SIGUSR2 and reboots at SIGUSR1.
number=@NUMBER@ when=@WHEN@
for word; do
    case "$word" in
        -h|-P|-H|-p|--poweroff|--halt) number=USR2 ;;
        -r|--reboot) number=USR1 ;;
        now) when=0 ;;
        +[0-9]*) when=${word#+} ;;
        -f|-n|--force) ;;
        -*|[0-9]*) echo "${0##*/}: $word is not answered here; use now or +MINUTES" >&2; exit 1 ;;
    esac
done
[ "$(id -u)" = 0 ] || { echo "${0##*/}: must be root" >&2; exit 1; }
[ "$when" = 0 ] && exec kill -s $number 1
setsid sh -c "sleep $((when * 60)); kill -s $number 1" </dev/null >/dev/null 2>&1 &
"""


def _shutdown(number: str, minutes: int) -> str:
    return _SHUTDOWN_COMMAND.replace("@NUMBER@", number).replace("@WHEN@", str(minutes))


COMMANDS = {
    "nvme": NVME_COMMAND,
    "ethtool": ETHTOOL_COMMAND,
    "cloud-init": CLOUD_INIT_COMMAND,
    "shutdown": _shutdown("USR2", 1),
    "poweroff": _shutdown("USR2", 0),
    "halt": _shutdown("USR2", 0),
    "reboot": _shutdown("USR1", 0),
}
"""The scripts by their names in /usr/local/sbin."""
