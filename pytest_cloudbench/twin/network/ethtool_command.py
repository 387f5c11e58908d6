"""The ``ethtool`` command of an instance: answers EC2's allowance counters, leaves the rest to the machine's own.

The page is kept by the network's governor in a file per interface (see allowance_page.py), shown read-only in the
instance; an interface that is not shaped has none. A shell script, because an instance's files cannot rely on any
Python.
"""

ALLOWANCES_DIRECTORY = "/run/ena-allowances"

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
