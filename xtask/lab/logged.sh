# A guest whose disk keeps a log of all writes, flushes and what they made durable.
modprobe dm-log-writes
dmsetup create logged --noudevrules --noudevsync \
    --table "0 $(blockdev --getsz /dev/nvme0n1) log-writes /dev/nvme0n1 /dev/nvme1n1"
dmsetup mknodes logged
mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/logged
mount -t ext4 /dev/mapper/logged /mnt/t
canaries
dmsetup message logged 0 mark begin
write_all > /lab/out 2>&1
umount /mnt/t
dmsetup remove logged
