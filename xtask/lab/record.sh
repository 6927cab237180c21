# Functions that record a tree of files for crates/observe/tests/fixtures. The tree grows in `tree`, in the directory
# of the case. A guest starts programs slowly, so one `cp` copies many files.

# record TARGET [NAMES]: lets skye look at TARGET, and records every file of the kernel that it opened. Of other
# processes, only those with a name like the extended regular expression NAMES are recorded.
record() {
    recorded "$SKYE" doctor "$1"
    finished "$2"
}

# record_run TARGET [NAMES]: the same with a test, which reads what goes on around it.
record_run() {
    recorded "$SKYE" run "$1" --size 1m --time 0.5 --test read:rnd4k --no-probe --no-save --allow low-space,busy
    finished "$2"
}

# finished NAMES: records such processes. Fails if skye has not begun.
finished() {
    [ -z "$1" ] || processes "$1"
    [ -s tree/proc/self/mountinfo ]
}

# recorded COMMAND…: runs a command, by the user `$user` if that is set, and records every file of the kernel that it
# opened.
recorded() {
    rm -rf opened
    mkdir -p opened
    strace ${user:+-u "$user"} -ff -qq -y --seccomp-bpf -e 'trace=?open,openat' -o opened/by "$@" > recorded.out 2>&1 || true
    cat opened/by.* | opened > paths
    kept < paths
}

# opened: turns a record of strace into lines of a way, `list` or `read`, the path that was opened, and where that led.
# Of processes, only the first one and the tracked one stay, without what is different in each of them.
opened() {
    awk -F '"' '
        $1 !~ /^open(at)?\(/ || ! match($3, / = [0-9]+<.*>/) { next }
        { real = substr($3, RSTART, RLENGTH - 1); sub(/^[^<]*</, "", real); path = $2 }
        path !~ /^\// { path = $1; sub(/^[^<]*</, "", path); sub(/>.*/, "", path); path = path "/" $2 }
        path !~ /^\/(proc|sys|dev\/mapper)(\/|$)/ || path ~ / / { next }
        path ~ /^\/proc\/(self\/(auxv|fd|maps|status|task)|sys\/kernel\/random|[02-9]|1[0-9])/ { next }
        path ~ /^\/proc\/self\// { sub(/^\/proc\/[0-9]+\//, "/proc/self/", real) }
        { print ($3 ~ /O_DIRECTORY/ ? "list" : "read"), path, real }' | sort -u
}

# kept: copies what such lines name: files, links on the way to them, and the names in directories that were listed.
# /proc/self becomes a directory, because nobody else has that number.
kept() {
    : > links
    : > files
    while read -r how path real; do
        at=
        rest=${path#/}/
        while [ -n "$rest" ]; do
            at=$at/${rest%%/*}
            rest=${rest#*/}
            [ ! -L "$at" ] || [ "$at" = /proc/self ] || echo "$at" >> links
        done
        if [ "$how" = list ]; then
            listed "$real"
        elif [ -f "$real" ]; then
            echo "$real" >> files
        elif [ -f "$real/dev" ]; then
            # A device that was only looked for.
            echo "$real/dev" >> files
        fi
    done
    copied
}

# listed DIRECTORY: names in a directory that matter: links, journals, and those that btrfs shows as files.
listed() {
    [ "$1" != /proc ] || return 0
    for entry in "$1"/*; do
        if [ -L "$entry" ]; then
            echo "$entry" >> links
        elif [ "$1" = /proc/fs/jbd2 ] && [ -d "$entry" ]; then
            echo "$entry/info" >> files
        elif [ -f "$entry" ] && [ "${1#/sys/fs/btrfs/*-}" != "$1" ]; then
            echo "$entry" >> files
        fi
    done
}

# copied: copies all links and files, if they can be read. The guest's own root directory, and what it shares with the
# machine around it, are left out.
copied() {
    mkdir -p tree
    # A link that was reached through another one has a directory of its own.
    sed 's,/[^/]*$,,' links | xargs -r -d '\n' realpath > directories
    sed 's,.*/,,' links | paste -d / directories - > reached
    for list in reached files; do
        sort -u $list | xargs -r -d '\n' cp -P --parents --no-preserve=mode -t tree 2> /dev/null || true
    done
    # Some kernels give nothing of /proc/sys to `cp`. A file that nobody can read is as good as missing.
    find tree -type f -empty | while read -r file; do
        dd if="/${file#tree/}" of="$file" bs=4k status=none 2> /dev/null || rm -f "$file"
    done
    for file in tree/proc/self/mountinfo tree/proc/self/mountstats; do
        if [ -f $file ]; then
            awk '/^device / { own = / mounted on \/ / || / fstype 9p/ }
                ! own && $5 != "/" && ! / - 9p /' $file > copy
            mv copy $file
        fi
    done
}

# processes NAMES: records the processes with such a name.
processes() {
    : > links
    grep -lsxE "$1" /proc/[0-9]*/comm | while read -r comm; do
        echo "$comm"
        echo "${comm%comm}cmdline"
        echo "${comm%comm}stat"
    done > files
    copied
}

# superblock DEVICE: records the beginning of a device, which only root may read.
superblock() {
    mkdir -p tree/dev
    head -c 2048 "$1" > "tree$1"
}

# sata: the disks sda and sdb.
sata() {
    modprobe ahci
    modprobe sd_mod
    until [ -b /dev/sda ] && [ -b /dev/sdb ]; do sleep 0.2; done
}
