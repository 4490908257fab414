#!/bin/sh
# finish.sh TREE: after the packages are installed. What no test needs goes; the job's unit comes.
set -eu
tree=$1
rm -rf "$tree/usr/share/doc" "$tree/usr/share/man" "$tree/usr/share/locale" "$tree/usr/share/info"
rm -rf "$tree/var/lib/apt/lists" "$tree/var/cache/apt"
echo guest > "$tree/etc/hostname"
: > "$tree/etc/fstab"
# somebody without rights, for whom systemd starts a manager
echo 'somebody:x:1000:1000::/home/somebody:/bin/sh' >> "$tree/etc/passwd"
echo 'somebody:x:1000:' >> "$tree/etc/group"
echo 'somebody:!:19000::::::' >> "$tree/etc/shadow"
install -d -o 1000 -g 1000 "$tree/home/somebody"
units=$tree/etc/systemd/system
# a test that needs it starts it
rm -f "$units/multi-user.target.wants/containerd.service"
mkdir -p "$units/multi-user.target.wants"
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer systemd-firstboot.service; do
    ln -sf /dev/null "$units/$unit"
done
cat > "$units/qoslet-job.service" <<'UNIT'
[Unit]
Description=What the second disk says
After=multi-user.target
[Service]
Type=simple
ExecStart=/bin/sh -c 'mkdir -p /job && mount /dev/vdb /job && exec /bin/sh /job/job.sh'
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
UNIT
ln -sf ../qoslet-job.service "$units/multi-user.target.wants/qoslet-job.service"
