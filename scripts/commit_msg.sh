#!/bin/sh
# The habit of commits: a subject `area: what` of at most 72 characters, then an empty line, then the reasons.
# With a file, checks the message in it, as git's hook commit-msg does. With --install, makes this script that hook:
# `make env` does so. A hook that is there stays as it is; without a git checkout there is nothing to do.
set -eu

MOST=72
HOOK='#!/bin/sh
# Written by `make env`: the subject of a commit is `area: what`. A state of the sources without the script has no check.
[ ! -x scripts/commit_msg.sh ] || exec scripts/commit_msg.sh "$1"'

# Characters of $1, not bytes, in any locale: the bytes that continue a character of UTF-8 are left out.
length() { printf %s "$1" | LC_ALL=C tr -d '\200-\277' | wc -c | tr -d ' '; }

check() {
    mark=$(git config core.commentChar 2>/dev/null || echo '#')
    [ "$mark" != auto ] || mark='#'
    # The first paragraph without comments; git reads all of it as the subject.
    paragraph=$(awk -v mark="$mark" '
        index($0, mark) == 1 { next }
        /^[ \t\r]*$/ { if (seen) exit; next }
        { seen = 1; print }
    ' "$1")
    subject=$(printf '%s\n' "$paragraph" | sed -n 1p)
    case $subject in
    # git's own words
    '' | 'Merge '[bcprt]* | 'Revert "'* | 'Reapply "'* | 'fixup! '* | 'squash! '* | 'amend! '*) return 0 ;;
    esac
    wrong=
    printf '%s\n' "$subject" | LC_ALL=C grep -Eq '^[a-z][a-z0-9_./-]*(, [a-z][a-z0-9_./-]*)*: [^ ]' \
        || wrong="it has no area in front, as in 'index: buckets of one line'"
    [ "$(length "$subject")" -le "$MOST" ] || wrong="${wrong:+$wrong, and }it has $(length "$subject") characters"
    [ "$subject" = "$paragraph" ] || wrong="${wrong:+$wrong, and }the line below it is not empty"
    [ -n "$wrong" ] || return 0
    echo "The subject of this commit: $subject" >&2
    echo "does not fit: $wrong." >&2
    echo "Write \`area: what\` in at most $MOST characters, then an empty line, then why." >&2
    return 1
}

install_hook() {
    unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
    cd "$(dirname "$0")/.."
    # A worktree has a file .git. An archive that was unpacked inside another repository has none, and leaves that alone.
    [ -e .git ] && command -v git >/dev/null || return 0
    hook=$(git rev-parse --git-path hooks 2>/dev/null)/commit-msg || return 0
    if grep -qs 'scripts/commit_msg\.sh' "$hook"; then
        return 0
    fi
    own=
    # A folder that core.hooksPath names may serve other repositories too.
    if git config core.hooksPath >/dev/null; then own="core.hooksPath leads to $hook"; fi
    if [ -e "$hook" ] || [ -L "$hook" ]; then own="$hook is your own, and stays as it is"; fi
    if [ -n "$own" ]; then
        echo "The subjects of commits are not checked: $own."
        echo 'To check them, let that hook call:  scripts/commit_msg.sh "$1"'
        return 0
    fi
    if mkdir -p "$(dirname "$hook")" && printf '%s\n' "$HOOK" >"$hook" && chmod +x "$hook"; then
        echo "$hook checks the subjects of commits"
    else
        echo "The subjects of commits are not checked: $hook cannot be written."
    fi
}

case ${1:-} in
--install) install_hook ;;
'') echo "usage: scripts/commit_msg.sh FILE | --install" >&2 && exit 2 ;;
*) check "$1" ;;
esac
