"""The commands that an EC2 image has: for EC2's counters, its disks, the end of its boot, and its shutdown.

``nvme`` and ``ethtool`` answer EC2's counters and leave the rest to the machine. The counters are pages that the region
keeps up to date in files, which the instance can only read: one per volume (volumes/shared_pages.py) and one per shaped
interface (network/governor.py). All are shell scripts, because an instance cannot rely on any Python.
"""

LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COUNTERS_DIRECTORY = "/run/ebs-counters"
ALLOWANCES_DIRECTORY = "/run/ena-allowances"
ROOT_DISK_FILE = "/run/root-disk"
"""Has the name under which EC2 shows the root disk. It is not a device here, but a layer over this machine's files."""
PARTITIONS_FILE = "/run/partitions"
"""What the instance shows as /proc/partitions."""
BOOT_FINISHED = "/var/lib/cloud/instance/boot-finished"
FAILED_SCRIPTS = "/var/lib/cloud/instance/failed-scripts"
"""Names of the scripts of the user data whose last command failed; empty if none did."""

NVME_COMMAND = r"""#!/bin/sh
# Answers `nvme list [-o json]`, `nvme --version` and `nvme get-log DEVICE --log-id=0xd0`; every other request goes to
# the machine's own nvme, which sees none of the instance's devices.
pages=@PAGES@
own() {
    for candidate in /usr/sbin/nvme /usr/bin/nvme /sbin/nvme; do
        [ -x "$candidate" ] && exec "$candidate" "$@"
    done
    [ "$1" = --version ] && echo "nvme version 0 (answers 'list' and 'get-log --log-id=0xd0' only)" && exit 0
    echo "nvme: only 'list' and 'get-log --log-id=0xd0' are answered here, this machine has no nvme-cli" >&2
    exit 1
}
devices() { # a line "NODE SERIAL BYTES MODEL" for each
    for link in /dev/disk/by-id/nvme-Amazon_*; do
        case "$link" in
            *_1|*-ns-1) continue ;;
        esac
        [ -e "$link" ] || continue
        node=$(readlink -f "$link")
        name=${link##*/nvme-}
        echo "$node ${name##*_} $(blockdev --getsize64 "$node") $(echo "${name%_*}" | tr _ ' ')"
    done | sort -V
}
table='%-21s %-21s %-20s %-40s %-10s %-26s %-16s %-8s\n'
list() {
    printf "$table" Node Generic SN Model Namespace Usage Format 'FW Rev'
    d=----------------------------------------
    printf '%.21s %.21s %.20s %.40s %.10s %.26s %.16s %.8s\n' $d $d $d $d $d $d $d $d
    devices | while read -r node serial bytes model; do
        size=$(awk -v bytes="$bytes" 'BEGIN { printf "%6.2f  GB / %6.2f  GB", bytes / 1e9, bytes / 1e9 }')
        printf "$table" "$node" "/dev/ng${node#/dev/nvme}" "$serial" "$model" 0x1 "$size" '512   B +  0 B' 1.0
    done
}
list_json() {
    devices | awk 'BEGIN { printf "{\n  \"Devices\":[" } {
        model = $4; for (i = 5; i <= NF; i++) model = model " " $i
        printf "%s\n    {\"NameSpace\":1,\"DevicePath\":\"%s\",\"Firmware\":\"1.0\",\"ModelNumber\":\"%s\",", \
            (NR > 1 ? "," : ""), $1, model
        printf "\"SerialNumber\":\"%s\",\"UsedBytes\":%s,\"MaximumLBA\":%d,\"PhysicalSize\":%s,\"SectorSize\":512}", \
            $2, $3, $3 / 512, $3
    } END { print "\n  ]\n}" }'
}
if [ "$1" = list ]; then
    [ "$(id -u)" = 0 ] || { echo "Failed to open devices: Permission denied" >&2; exit 1; }
    case "$*" in
        list|list\ -v|list\ -o\ normal|list\ --output-format=normal) list ;;
        list\ -o\ json|list\ -ojson|list\ --output-format=json|list\ --output-format\ json) list_json ;;
        *) echo "nvme: list takes -o json only here, got: $*" >&2; exit 1 ;;
    esac
    exit
fi
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

LSBLK_COMMAND = r"""#!/bin/sh
# Lists the disks of this instance. /sys has those of the machine below, under other names, so the machine's lsblk reads
# a small /sys with the disks that /dev has, and with the root disk.
for real in /usr/bin/lsblk /bin/lsblk; do [ -x "$real" ] && break; done
asked= properties= status=0
takes_a_word() { # as getopt: -o and -bdno do, -oSIZE does not
    case "$1" in
        --output|--exclude|--include|--sort|--dedup|--width) ;;
        --*) return 1 ;;
        *) case "${1%?}" in *[oeIxEw]*) return 1 ;; esac
           case "$1" in *[oeIxEw]) ;; *) return 1 ;; esac ;;
    esac
}
set -- "$@" --end-of-arguments
while [ "$1" != --end-of-arguments ]; do
    case "$1" in
        -h|--help|-V|--version|-H|--list-columns) exec "$real" "$1" ;;
        -*)
            case "$1" in *f*|*O*|*FS*|*UUID*|*LABEL*|*PT*|--output-all) properties=yes ;; esac
            set -- "$@" "$1"
            if takes_a_word "$1"; then
                case "$2" in *FS*|*UUID*|*LABEL*|*PT*|*fs*|*uuid*|*label*|*pt*) properties=yes ;; esac
                set -- "$@" "$2"
                shift
            fi ;;
        *)
            if [ -b "$1" ] || [ "$1" = "/dev/$(cat @ROOT@)" ]; then
                node=$(readlink -f "$1")
                asked="$asked ${node##*/} "
            else
                echo "lsblk: $1: not a block device" >&2
                status=32
            fi ;;
    esac
    shift
done
shift
[ "$status" = 0 ] || [ -n "$asked" ] || exit "$status"
[ "$status" = 0 ] || status=64
view=$(mktemp -d) || exit 1
trap 'rm -rf "$view"' EXIT
blocks=$view/sys/block
mkdir -p "$blocks" "$view/sys/dev/block" "$view/proc/self" "$view/dev"
ln -s /proc/swaps "$view/proc/swaps"
as_root=
[ "$(id -u)" = 0 ] || as_root='sudo -n'
wanted() {
    case "$asked" in
        '') ;;
        *" $1 "*) ;;
        *) case "$1" in nvme*|xvd*) return 1 ;; esac ;;  # what lies on a disk is shown with it
    esac
}
stat -L -c '%n %t %T %A %U %G' /dev/nvme*n* /dev/xvd* /dev/md[0-9]* /dev/dm-* 2>/dev/null |
    while read -r node major minor mode owner group; do
        name=${node##*/} number=$((0x$major)):$((0x$minor))
        [ -b "$node" ] && [ -d "/sys/dev/block/$number" ] && wanted "$name" || continue
        mkdir "$blocks/$name"
        ln -s "/sys/dev/block/$number"/* "$blocks/$name/"
        ln -s "../../block/$name" "$view/sys/dev/block/$number"
        {
            printf 'MODE=%s\nOWNER=%s\nGROUP=%s\n' "$mode" "$owner" "$group"
            [ -z "$properties" ] || $as_root blkid -p -o udev "$node" 2>/dev/null
        } >"$view/dev/$name"
    done
for link in /dev/disk/by-id/nvme-*; do
    case "$link" in *_1|*-ns-1) continue ;; esac
    name=$(readlink "$link") words=${link##*/nvme-}
    name=${name##*/}
    [ -e "$view/dev/$name" ] || continue
    printf 'ID_SERIAL_SHORT=%s\nID_MODEL=%s\n' "${words##*_}" "$(echo "${words%_*}" | tr _ ' ')" >>"$view/dev/$name"
done
root=$(cat @ROOT@)
if wanted "$root"; then
    mkdir -p "$blocks/$root/queue"
    ln -s "../../block/$root" "$view/sys/dev/block/259:0"
    echo 259:0 >"$blocks/$root/dev"
    echo $(($(stat -f -c '%b * %S' /) / 512)) >"$blocks/$root/size"
    for name in ro removable hidden queue/rotational; do echo 0 >"$blocks/$root/$name"; done
    echo 512 >"$blocks/$root/queue/logical_block_size"
    printf 'MODE=brw-rw----\nOWNER=root\nGROUP=disk\n' >"$view/dev/$root"
fi
sed -e "s|^\([0-9]* [0-9]*\) [0-9:]* / / \(.* - \)overlay cloudbench-root |\1 259:0 / / \2ext4 /dev/$root |" \
    /proc/self/mountinfo >"$view/proc/self/mountinfo"
"$real" --sysroot "$view" "$@"
code=$?
[ "$code" != 0 ] || code=$status
exit "$code"
""".replace("@ROOT@", ROOT_DISK_FILE)

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
    "lsblk": LSBLK_COMMAND,
    "cloud-init": CLOUD_INIT_COMMAND,
    "shutdown": _shutdown("USR2", 1),
    "poweroff": _shutdown("USR2", 0),
    "halt": _shutdown("USR2", 0),
    "reboot": _shutdown("USR1", 0),
}
"""The scripts by their names in /usr/local/sbin."""
