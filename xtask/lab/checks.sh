# Checks of a file system that was cut off while skye wrote to it.
wrong() { echo "$*" >> /lab/wrong; }

# canaries: files of somebody else in /mnt/t.
canaries() {
    mkdir /mnt/t/canaries
    for number in 1 2 3 4; do
        head -c ${number}00000 /dev/urandom > /mnt/t/canaries/$number
    done
    (cd /mnt/t/canaries && sha256sum 1 2 3 4 > sums)
    sync
}

# check: what must be true in /mnt/t after a cut; what is not goes to /lab/wrong. It counts the runs saved there.
check() {
    (cd /mnt/t/canaries && sha256sum --quiet -c sums) > /tmp/canaries 2>&1 || wrong "a foreign file has changed"
    "$SKYE" clean /mnt/t > /tmp/clean 2>&1 || wrong "skye clean: exit code $?: $(cat /tmp/clean)"
    for left in /mnt/t/skye.*; do
        [ ! -e "$left" ] || wrong "skye clean has left $left"
    done
    for run in /mnt/t/state/skye/runs/*.json; do
        [ -e "$run" ] || continue
        "$SKYE" report "$run" > /dev/null 2> /tmp/report || wrong "a saved run is torn: $(cat /tmp/report)"
        echo "$run" >> /lab/saved
    done
}

# write_all: a round of tests that write to /mnt/t. Calls that acknowledge blocks go to /lab/written and /lab/synced.
write_all() {
    options="--size 4m --time 2 --no-probe --allow low-space,busy --engine sync"
    trace="strace -f -y -qq -xx -s 40"
    $trace -e trace=pwrite64 -o /lab/written "$SKYE" run /mnt/t $options --no-save --test write:rnd4k:sync=each
    $trace -e trace=pwrite64,fdatasync -o /lab/synced "$SKYE" run /mnt/t $options --no-save --test fsync:rnd4k
    XDG_STATE_HOME=/mnt/t/state "$SKYE" run /mnt/t $options --test create:t2:files=500 --test write:seq64k
}

cp /lab/skye /tmp/skye
export SKYE=/tmp/skye
mkdir -p /mnt/t
