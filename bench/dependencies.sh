# SPDX-License-Identifier: MIT
# Sourced by gpu_check.sh and gpu_bench.sh: finds missing libraries in the folder that
# PTXGEN_DEPENDENCIES names, which has unpacked Debian packages (usr/include, usr/lib/...):
# libcmocka-dev, libcmocka0, libjansson-dev, libjansson4, and, if pkg-config is missing, pkgconf,
# pkgconf-bin and libpkgconf3. Adds the CUDA toolkit to the path. On a Debian or Ubuntu with a network:
#
#     mkdir -p FOLDER/debs && cd FOLDER/debs
#     apt-get download libcmocka-dev libcmocka0 libjansson-dev libjansson4 pkgconf pkgconf-bin libpkgconf3
#     for package in *.deb; do dpkg -x "$package" ..; done && cd .. && rm -r debs

dependencies=${PTXGEN_DEPENDENCIES:-}
if [ -n "$dependencies" ]; then
    dependencies=$(cd "$dependencies" && pwd) || exit 1
    libraries=$dependencies/usr/lib/$(uname -m)-linux-gnu
    PATH=$PATH:$dependencies/usr/bin
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    PKG_CONFIG_PATH=$libraries/pkgconfig
    PKG_CONFIG_SYSROOT_DIR=$dependencies
    export PATH LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
    if ! command -v pkg-config >/dev/null && command -v pkgconf >/dev/null; then
        PKG_CONFIG=pkgconf
        export PKG_CONFIG
    fi
fi
PATH=$PATH:/usr/local/cuda/bin
export PATH
