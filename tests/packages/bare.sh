#!/bin/sh
# SPDX-License-Identifier: MIT
# README's commands as new users run them, on a machine that has nothing. LOG becomes the testlog.json of the tests.
#
#     bare.sh root SOURCE LOG      in a root that debootstrap makes, from the mirror and with the settings that apt
#                                  has here; by an ordinary user who may use sudo. Status 77 if it cannot be made
#     bare.sh hidden SOURCE LOG    the test command here, where ptxas, git and locales are hidden
#
# Warnings are errors where CFLAGS says so. The root shares the compiler's cache in CCACHE_DIR, if there is one: its
# compiler is then usually the one of this machine.
set -eu

how=$1
source=$(CDPATH='' cd -- "$2" && pwd)
log=$3
# shellcheck source=tests/packages/common.sh
. "$source/tests/packages/common.sh"
# shellcheck source=tests/packages/download.sh
. "$source/tests/packages/download.sh"
root=$scratch/root
trap 'rm -rf "$scratch" 2>/dev/null || as_root rm -rf "$scratch" || :' EXIT
trap 'exit 1' HUP INT TERM
PATH=$PATH:/usr/sbin:/sbin

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# indices: site, release and component of each of apt's lists of packages
indices() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null
}

# mirror: the first site and release that debootstrap can install from, and the release's components
mirror() {
    indices | while read -r site release component; do
        if [ "$component" = main ] && [ -e "/usr/share/debootstrap/scripts/$release" ]; then
            echo "$site $release $(indices | sed -n "s|^$site $release ||p" | sort -u | paste -sd ,)"
            break
        fi
    done
}

# in_root COMMAND...: with file systems of its own, which end with it; no device but those that every system has.
in_root() {
    # shellcheck disable=SC2016 # of the inner shell
    as_root unshare --mount --pid --fork sh -c 'cd "$0" && mount -t proc proc proc && mount --rbind /sys sys &&
        mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts && mount -t tmpfs tmpfs dev/shm &&
        { [ -z "$1" ] || mount --bind "$1" var/cache/compiler; } && shift &&
        exec chroot . "$@"' "$root" "${CCACHE_DIR-}" "$@"
}

# as_user COMMAND: in the sources, by the ordinary user
as_user() {
    cache=
    [ -z "${CCACHE_DIR-}" ] || cache='export CCACHE_DIR=/var/cache/compiler CCACHE_UMASK=000 CCACHE_NOHASHDIR=1 \
        CCACHE_COMPILERCHECK=content CCACHE_SLOPPINESS=locale;'
    in_root su - user -c "cd ptxgen && $cache CFLAGS='${CFLAGS-}' CXXFLAGS='${CXXFLAGS-}' $1"
}

make_root() {
    command -v debootstrap >/dev/null ||
        { as_root apt-get -q update && as_root apt-get -q -y --no-install-recommends install debootstrap; } || return
    # shellcheck disable=SC2046 # three words
    set -- $(mirror)
    [ $# -eq 3 ] || { echo "apt has no mirror that debootstrap knows" && return 1; }
    more=sudo
    case $1 in https:*) more=$more,ca-certificates ;; esac
    [ -z "${CCACHE_DIR-}" ] || {
        more=$more,ccache
        mkdir -p "$CCACHE_DIR"
        chmod 777 "$CCACHE_DIR"
    }
    mkdir "$root"
    echo "debootstrap of $2"
    download as_root debootstrap --variant=minbase --include=$more --components="$3" "$2" "$root" "$1" || return
    {
        apt-config dump | grep '^Acquire::https\?::' || :
        [ -z "${http_proxy-}" ] || echo "Acquire::http::Proxy \"$http_proxy\";"
        [ -z "${https_proxy-}" ] || echo "Acquire::https::Proxy \"$https_proxy\";"
        echo 'Acquire::Retries "3";'
    } | as_root tee "$root/etc/apt/apt.conf.d/00here" >/dev/null
    { cat /etc/hosts && echo "127.0.0.1 $(hostname)"; } | as_root tee "$root/etc/hosts" >/dev/null
    as_root mkdir "$root/var/cache/compiler"
    in_root useradd -m -s /bin/sh user &&
        echo 'user ALL=(ALL) NOPASSWD: ALL' | as_root tee "$root/etc/sudoers.d/user" >/dev/null
}

test_in_root() {
    # A clone has .git, whether or not there is the command.
    mkdir "$scratch/ptxgen" "$scratch/ptxgen/.git"
    copy_sources "$scratch/ptxgen"
    as_root mv "$scratch/ptxgen" "$root/home/user"
    in_root chown -R user: /home/user/ptxgen
    for program in git ptxas g++; do
        ! in_root sh -c "command -v $program" || fail "$program is in a bare root"
    done
    status=0
    as_user 'sh tools/quickstart.sh' >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        ! grep 'quickstart: apt-get ' "$scratch/log" || {
            echo "skipped: apt-get does not install in a bare root what quickstart asks for"
            exit 77
        }
        fail "sh tools/quickstart.sh"
    }
    for words in ': no GPU here: everything runs on the emulator' '^plain C ' ' same bits '; do
        grep "$words" "$scratch/log" || fail "quickstart did not print '$words': $(cat "$scratch/log")"
    done
    as_user 'sh tools/quickstart.sh test' || status=$?
    cp "$root/home/user/ptxgen/build/meson-logs/testlog.json" "$log"
    return $status
}

# Programs by PATH, locales by glibc's variable; ptxas' usual folder where this system lets us hide it.
test_hidden() {
    PATH=$(path_without ptxas git locale localedef)
    LOCPATH=$scratch/locales
    mkdir "$LOCPATH"
    export PATH LOCPATH
    unset CUDA_HOME
    set -- sh "$source/tools/quickstart.sh" test
    usual=/usr/local/cuda/bin
    if [ -x $usual/ptxas ]; then
        if unshare --mount true 2>/dev/null; then
            # shellcheck disable=SC2016 # of the inner shell
            set -- unshare --mount sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' $usual "$@"
        else
            echo "this system cannot hide $usual/ptxas"
        fi
    fi
    status=0
    "$@" || status=$?
    cp "$source/build/meson-logs/testlog.json" "$log"
    return $status
}

if [ "$how" = hidden ]; then
    test_hidden
elif make_root >"$scratch/log" 2>&1; then
    # shellcheck disable=SC1091 # of the root
    . "$root/etc/os-release"
    echo "a bare root: $PRETTY_NAME, $(du -sm "$root" 2>/dev/null | cut -f 1) MB"
    test_in_root
else
    echo "skipped: no bare root can be had here: $(tail -n 3 "$scratch/log")"
    exit 77
fi
