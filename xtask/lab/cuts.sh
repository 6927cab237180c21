# A guest that is killed at a random instant while skye writes to its disk. It first checks what the cut before left.
disk=/dev/nvme0n1
mkdir -p /lab/rescued
if blkid $disk > /dev/null; then
    mount -t ext4 $disk /mnt/t || wrong "the file system does not mount"
    cp -a /mnt/t/skye.* /lab/rescued/ 2> /dev/null
    check
else
    mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 $disk
    mount -t ext4 $disk /mnt/t
    canaries
fi
echo > /lab/checked
while :; do write_all; done > /lab/out 2>&1
