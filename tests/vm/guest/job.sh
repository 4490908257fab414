#!/bin/sh
# Runs as root in a guest, from the second disk. `settings` beside it says what to do; what is
# left in /out is written as a tar to the third disk; the second serial line is the terminal.
set -u
. /job/settings
export HOME=/root USER=root LC_ALL=C.UTF-8
export PATH=/job/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
line=/dev/ttyS1
mkdir -p /out /job/bin
cd /job/repo || exit 1
printf '#!/bin/sh\nexec python3 -m qoslet "$@"\n' > /job/bin/qoslet
chmod 755 /job/bin/qoslet
# containerd 1.6 makes no sandbox without it
[ -e /etc/hosts ] || printf '127.0.0.1 localhost\n' > /etc/hosts

if [ -d /job/packages ]; then
    # nothing of them is started
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    dpkg -i /job/packages/*.deb > /out/packages.log 2>&1 || cat /out/packages.log > "$line"
fi

case $QOSLET_JOB in
run)
    stty -F "$line" raw -echo
    sh -c "$QOSLET_COMMAND" > "$line" 2>&1 < /dev/null
    echo $? > /out/code
    ;;
shell)
    export TERM="$QOSLET_TERM"
    # shellcheck disable=SC2016 # the inner shell expands them
    setsid -c -w sh -c 'stty sane cols "$QOSLET_COLUMNS" rows "$QOSLET_ROWS"; exec bash -i' \
        < "$line" > "$line" 2>&1
    echo 0 > /out/code
    ;;
test)
    stty -F "$line" raw -echo
    echo "$QOSLET_SYSTEM has booted" > "$line"
    # else it rewrites each module of every package that has a plugin, for a minute
    export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
    suite() {
        # shellcheck disable=SC2086 # several names
        python3 -m pytest -m live $QOSLET_SUITES -q --color=no --continue-on-collection-errors --timeout 400 \
            -o cache_dir=/tmp/pytest -p pytest_timeout -p tests.vm.plugin -o junit_family=xunit1 "$@" \
            > "$line" 2>&1 < /dev/null
    }
    suite --junitxml /out/junit.xml
    code=$?
    if [ "$code" -eq 1 ]; then
        echo "what failed, once more" > "$line"
        suite --junitxml /out/again.xml --last-failed --last-failed-no-failures none
    fi
    echo "$code" > /out/code
    if [ "$code" -ne 0 ]; then journalctl -b --no-pager > /out/journal.log 2>&1; fi
    ;;
esac

tar -cf /dev/vdc -C /out .
sync
systemctl poweroff -ff
