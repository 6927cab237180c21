# Functions of the scripts in the files of cases. A case runs in a directory of its own; `$SKYE` is the program.

# measure TARGET OPTION…: `skye run` that writes its document.
measure() {
    "$SKYE" run "$@" --json document.json --allow low-space,busy
}

# rate TARGET FIRST: reads a second at random places of the 64 MiB from that MiB on.
rate() {
    "$SKYE" run "$1" --test "read:rnd4k:q8:range=$2m..$(($2 + 64))m" --time 3 --no-probe --no-save --json pair.json --allow low-space,busy > pair.out 2>&1
    sed -n '/"phases"/,$p' pair.json | sed -n 's/.*"ops_per_second": \([0-9.e+]*\),*$/\1/p' | head -n 1
}

# paired DEVICE LIMITED: reads of a device over those of the same blocks through a file on it, as the median of 15 pairs. It,
# or what it lies on, gives 500 reads a second: else this guest's CPU would be the limit, of which a file takes more.
paired() {
    dd if=/dev/zero of=/mnt/t/file bs=1M count=256 conv=fsync 2> /dev/null
    # The first MiB of a part of 64 MiB or more that lies in one piece: in the file, and on the device.
    filefrag -v -b1048576 /mnt/t/file | tr -d ':.' | awk '$1 ~ /^[0-9]+$/ && $6 >= 65 { print $2 + 1, $4 + 1; exit }' > part
    read -r in_file on_device < part
    group io
    echo "$(number "$2") riops=500" > /sys/fs/cgroup/lab/io.max
    enter
    for pair in $(seq 15); do
        if [ $((pair % 2)) = 0 ]; then
            device=$(rate "$1" "$on_device")
            file=$(rate /mnt/t/file "$in_file")
        else
            file=$(rate /mnt/t/file "$in_file")
            device=$(rate "$1" "$on_device")
        fi
        echo "$device $file"
    done | awk 'NF == 2 { print $1 / $2 }' | sort -n | awk '
        { ratio[NR] = $1 }
        END { print "of", NR, "pairs, the median is", ratio[8]; if (NR == 15 && ratio[8] > 0.95 && ratio[8] < 1.05) print "within 5 %" }'
}

# sampled DEVICE: a sum over 32 parts of a device. A test that writes anywhere for two seconds misses none of them, and a
# sum over all of it takes a guest's CPU half a minute.
sampled() {
    mib=$(($(blockdev --getsize64 "$1") >> 20))
    for part in $(seq 0 31); do
        dd if="$1" bs=1M skip=$((part * mib / 32)) count=1 iflag=direct 2> /dev/null
    done | sha256sum
}

# erasing DEVICE OPTION…: `skye run` that writes to a device, named as `skye doctor` does. It says so if a refused run
# has changed a byte.
erasing() {
    device=$1
    shift
    id=$(tr -d ' ' 2> /dev/null < "/sys/class/block/$(basename "$(realpath "$device")")/device/serial")
    before=$(sampled "$device")
    measure "$device" --erase "${id:-$(blockdev --getsize64 "$device")}" --erase-data --time 2 --test write:rnd4k "$@"
    code=$?
    if [ "$code" != 0 ] && [ "$before" != "$(sampled "$device")" ]; then
        echo "bytes have changed"
    fi
    return "$code"
}

# mounted DEVICE [TYPE]: a new file system on a device, mounted at /mnt/t.
mounted() {
    type=${2:-ext4}
    case $type in
    ext4) mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 "$1" ;;
    *) wipefs -qa "$1" && "mkfs.$type" "$1" ;;
    esac
    mkdir -p /mnt/t
    mount -t "$type" "$1" /mnt/t
}

# unmounted: takes it away again, and what it held with it.
unmounted() {
    umount /mnt/t
    wipefs -qa /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1
}

# null NUMBER LATENCY_MS DEPTH: /dev/nullbNUMBER, 256 MiB of memory. It serves up to DEPTH requests at a time.
null() {
    modprobe null_blk nr_devices=0
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    mkdir "/sys/kernel/config/nullb/nullb$1"
    (
        cd "/sys/kernel/config/nullb/nullb$1"
        echo 1 > memory_backed
        echo 2 > irqmode
        echo $(($2 * 1000000)) > completion_nsec
        echo 1 > submit_queues
        echo "$3" > hw_queue_depth
        echo 256 > size
        echo 1 > power
    )
}

# unnull NUMBER: takes it away again.
unnull() {
    echo 0 > "/sys/kernel/config/nullb/nullb$1/power"
    rmdir "/sys/kernel/config/nullb/nullb$1"
}

# group CONTROLLER: a cgroup /sys/fs/cgroup/lab with that controller.
group() {
    echo "+$1" > /sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/lab
}

# enter: puts this shell into that cgroup.
enter() {
    echo $$ > /sys/fs/cgroup/lab/cgroup.procs
}

# ungroup: takes it away again.
ungroup() {
    rmdir /sys/fs/cgroup/lab
}

# number DEVICE: major and minor number of a device.
number() {
    printf '%d:%d\n' $(stat --dereference --format '0x%t 0x%T' "$1")
}

# mapped NAME TABLE: /dev/mapper/NAME, as `dmsetup create` makes it. There is no udev here.
mapped() {
    modprobe dm-mod
    dmsetup create "$1" --noudevrules --noudevsync --table "$2"
    dmsetup mknodes "$1"
}

# volume COMMAND OPTION…: a command of LVM. It makes device nodes itself, as there is no udev here.
volume() {
    "$@" --config 'activation{udev_sync=0 udev_rules=0} global{notify_dbus=0}'
}

# sectors DEVICE: its size in units of 512 bytes.
sectors() {
    blockdev --getsz "$1"
}

# server OPTIONS [THREADS]: exports /srv by NFS 4 to this guest itself; by NFS 3 as well with V3 set.
server() {
    versions="-N 3"
    if [ -n "$V3" ]; then
        versions=
        # No package was installed, so nobody made the user of the port mapper.
        grep -q ^_rpc: /etc/passwd || echo _rpc:x:199:65534::/run/rpcbind:/bin/false >> /etc/passwd
        mkdir -p /run/rpcbind
        rpcbind
    fi
    modprobe nfsd
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
    mkdir -p /run/rpc_pipefs /var/lib/nfs/v4recovery /var/lib/nfs/sm /srv
    touch /etc/exports /var/lib/nfs/etab /var/lib/nfs/rmtab
    exportfs -o "rw,no_root_squash,insecure,fsid=0,$1" '*:/srv'
    rpc.mountd $versions
    rpc.nfsd $versions "${2:-8}"
    # Without this, the server waits 90 s for clients of before.
    echo Y > /proc/fs/nfsd/v4_end_grace
    mkdir -p /mnt/n
}

# unserved: takes the server away again.
unserved() {
    umount -f /mnt/n
    exportfs -ua
    rpc.nfsd 0
    pkill rpc.mountd
    pkill rpcbind
    umount /srv
}

# network_disk: /dev/nbd0, a file of 256 MiB in /srv that this guest itself serves.
network_disk() {
    modprobe nbd
    dd if=/dev/urandom of=/srv/disk bs=1M count=256 2> /dev/null
    printf '[generic]\n[disk]\nexportname=/srv/disk\n' > /srv/nbd
    nbd-server -C /srv/nbd 127.0.0.1:10809
    sleep 1
    nbd-client -N disk 127.0.0.1 10809 /dev/nbd0
}

# no_network_disk: takes it away again.
no_network_disk() {
    nbd-client -d /dev/nbd0
    pkill nbd-server
    umount /srv
}
