#!/bin/sh
# Print the home of a Java that Spark can run on: 17 or newer, with the module that Spark's launcher asks for.
# Where there is none, root on Debian or Ubuntu gets the distribution's headless one; anyone else the exact command.
set -eu

# The home of the java program $1 if it fits; nothing otherwise. Asking it for the module starts it, so that a launcher
# without a runtime behind it (macOS has one) does not count.
home_of() {
    [ -x "$1" ] || return 1
    said=$("$1" --add-modules jdk.incubator.vector -XshowSettings:properties -version 2>&1) || return 1
    version=$(printf '%s\n' "$said" | sed -n 's/^ *java\.specification\.version = //p')
    home=$(printf '%s\n' "$said" | sed -n 's/^ *java\.home = //p')
    case $version in '' | *[!0-9]*) return 1 ;; esac
    [ "$version" -ge 17 ] && [ -x "$home/bin/java" ] && echo "$home"
}

# JAVA_PLACES replaces the usual places, as a test does.
places=${JAVA_PLACES-/usr/lib/jvm/* /usr/java/* /opt/java/* /opt/homebrew/opt/openjdk* /usr/local/opt/openjdk* \
    ${HOME:-/nonexistent}/.sdkman/candidates/java/current ${HOME:-/nonexistent}/.jdks/*}

search() {
    if [ -n "${JAVA_HOME:-}" ]; then
        home_of "$JAVA_HOME/bin/java" && return
    fi
    on_path=$(command -v java) && home_of "$on_path" && return
    if [ -x /usr/libexec/java_home ]; then
        mac=$(/usr/libexec/java_home -v 17+ 2>/dev/null) && home_of "$mac/bin/java" && return
    fi
    for home in $places; do
        home_of "$home/bin/java" && return
    done
    return 1
}

search && exit 0

root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }

# The first package that this release of Debian or Ubuntu offers; its default Java may be older than 17.
debian_package() {
    for package in openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
            echo "$package"
            return
        fi
    done
    echo default-jre-headless
}

if has apt-get && root; then
    echo "Spark needs Java 17 or newer and none was found: installing the distribution's headless one." >&2
    apt-get update -q >&2
    package=$(debian_package)
    echo "apt-get install $package" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >&2
    search && exit 0
    echo "$package is installed, but is no Java 17 or newer; install one and set JAVA_HOME to its home." >&2
    exit 1
fi

sudo=$(root || echo "sudo ")
if has apt-get; then
    command="${sudo}apt-get update && ${sudo}apt-get install -y $(debian_package)"
elif has dnf; then
    command="${sudo}dnf install -y java-21-openjdk-headless"
elif has yum; then
    command="${sudo}yum install -y java-17-openjdk-headless"
elif has zypper; then
    command="${sudo}zypper install -y java-21-openjdk-headless"
elif has pacman; then
    command="${sudo}pacman -S --noconfirm jre21-openjdk-headless"
elif has apk; then
    command="${sudo}apk add openjdk17-jre-headless"
elif has brew; then
    command="brew install openjdk@21"
else
    command=
fi
echo "Spark needs Java 17 or newer, and none was found in JAVA_HOME, on the PATH or in the usual places." >&2
if [ -n "$command" ]; then
    echo "Install it:  $command" >&2
else
    echo "Install a Java 17 or newer for this system and set JAVA_HOME to its home." >&2
fi
exit 1
