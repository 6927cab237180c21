# A guest that checks disks as they would be after a cut.
modprobe loop
for image in /lab/images/*; do
    if mount -t ext4 -o loop "$image" /mnt/t; then
        before=$(cat /lab/wrong 2> /dev/null | wc -l)
        check
        [ "$(cat /lab/wrong 2> /dev/null | wc -l)" = "$before" ] || wrong "that was $image"
        umount /mnt/t
    else
        wrong "the file system of $image does not mount"
    fi
    echo "$image" >> /lab/looked
done
