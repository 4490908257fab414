#!/bin/sh
# prepare.sh TREE: before the kernel is installed. A small initrd that is quick to unpack.
set -eu
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\nCOMPRESS=lz4\nBUSYBOX=n\n' > "$1/etc/initramfs-tools/conf.d/qoslet"
printf 'virtio_pci\nvirtio_blk\next4\n' > "$1/etc/initramfs-tools/modules"
