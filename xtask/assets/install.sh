#!/bin/sh
# Installs Planwright from a release: a directory, or a URL that holds its files.
#
#   sh install.sh                              from the directory of this script, into ~/.local
#   sh install.sh --from URL --prefix /usr/local
#
# Checks the tarball against SHA256SUMS before it unpacks anything.
set -eu

from=$(dirname "$0")
prefix=$HOME/.local

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --from) from=${2:?--from needs a directory or URL}; shift 2 ;;
        --prefix) prefix=${2:?--prefix needs a directory}; shift 2 ;;
        -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit ;;
        *) fail "unknown argument $1" ;;
    esac
done

[ "$(uname -s)" = Linux ] || fail "there are packages for Linux only. Build from source: cargo install --path crates/planwright"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl --fail --silent --show-error --location --output "$work/$1" "$from/$1"
            elif command -v wget >/dev/null; then
                wget --quiet --output-document="$work/$1" "$from/$1"
            else
                fail "curl or wget is needed to download"
            fi ;;
        *) cp "$from/$1" "$work/$1" ;;
    esac || fail "$from/$1 cannot be read"
}

fetch SHA256SUMS
machine=$(uname -m)
tarball=$(sed -n "s/^[0-9a-f]* [ *]\(planwright-[^/]*-$machine-[^/]*\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
[ -n "$tarball" ] || fail "the release has no package for $machine"
fetch "$tarball"

if command -v sha256sum >/dev/null; then
    check="sha256sum --check --status"
else
    check="shasum --algorithm 256 --check --status"
fi
(cd "$work" && grep -F "  $tarball" SHA256SUMS | $check -) || fail "$tarball does not match its checksum; nothing was installed"

tar -xzf "$work/$tarball" -C "$work"
tree=$work/${tarball%.tar.gz}
mkdir -p "$prefix/bin" "$prefix/share"
cp -R "$tree/share/." "$prefix/share/"
# A running planwright keeps its file; the new one takes the name.
cp "$tree/bin/planwright" "$prefix/bin/.planwright.new"
mv -f "$prefix/bin/.planwright.new" "$prefix/bin/planwright"

echo "Installed $("$prefix/bin/planwright" --version) in $prefix/bin"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "Add $prefix/bin to your PATH to start it by name." ;;
esac
echo "Try it: planwright demo"
