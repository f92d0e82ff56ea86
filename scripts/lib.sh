# shellcheck shell=bash
# What every step of build.sh shares: how it is shown, logs, packages, and where things are kept.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${PHOS_CACHE:-$ROOT/.cache}
LOGS=$CACHE/log
mkdir -p "$LOGS"

# say STATE TEXT: the one line of a step.
say() { printf '%-7s %s\n' "$1" "$2"; }

die() {
	say FAILED "$1" >&2
	exit 1
}

# step NAME COMMAND...: runs quietly in a shell of its own, and prints how it ended; a failure shows
# the end of its log. What runs is shown while it runs: on a terminal until the last line replaces
# it, in a log by a line of its own.
step() {
	local name=$1 log start=$SECONDS failed
	shift
	log=$LOGS/$(tr -c 'a-zA-Z0-9\n' '-' <<<"$name").log
	if [ -t 1 ]; then printf '%-8s%s ...\r' "" "$name"; else say begin "$name"; fi
	# Not as an if's condition: inside one, a command that fails does not end the shell.
	set +e
	(
		set -e
		"$@"
	) >"$log" 2>&1 </dev/null
	failed=$?
	set -e
	if [ $failed = 0 ]; then
		say ok "$name ($((SECONDS - start)) s)"
		return
	fi
	say FAILED "$name; the last lines of $log:" >&2
	tail -n 30 "$log" | sed 's/^/        /' >&2
	exit 1
}

# os ID|VERSION_ID|VERSION_CODENAME: a field of the distribution's own description.
os() { (. /etc/os-release && printf '%s' "${!1:-}"); }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
		echo "root is needed for: $*"
		return 1
	fi
}

# leaderless: the leader of this shell's session is in another pid namespace, as after "unshare
# --pid --fork".
leaderless() {
	local stat
	read -r stat </proc/self/stat
	[ "$(cut -d' ' -f4 <<<"${stat##*) }")" = 0 ]
}

# in_own_session FOLDER COMMAND...: runs it there as the leader of a new session, and ends with it,
# or it with this shell.
in_own_session() {
	cd "$1"
	setsid "${@:2}" <&0 &
	# shellcheck disable=SC2064 # this very child
	trap "kill -- -$!" INT TERM HUP
	wait $!
	exit $?
}

apt_install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" && return
	# The lists may be missing or old: fetch them and try once more.
	as_root apt-get update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# need PACKAGE...: installs those that are missing; silent when there is nothing to do.
need() {
	local missing=() package
	for package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} = 0 ] && return
	step "install ${missing[*]}" apt_install "${missing[@]}"
}

# archive_mirror: the address of the archive of Debian or Ubuntu this machine is already set up
# with; fails where there is none.
archive_mirror() {
	case $(os ID) in debian | ubuntu) ;; *) return 1 ;; esac
	known_mirror && return
	# Images come without apt's lists, and only these say which source is which.
	as_root apt-get update >/dev/null 2>&1 && known_mirror
}

known_mirror() {
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(ORIGIN)' 'Created-By: Packages' 2>/dev/null |
		awk -v suite="$(os VERSION_CODENAME)" '$1 !~ /^cdrom:/ && $2 == suite && ($3 == "" || $3 == "Debian" || $3 == "Ubuntu") && !found { print $1; found = 1 } END { exit !found }'
}

# archive_source TYPE SUITE COMPONENT...: a line for apt's sources, checked with the archive's own
# keys.
archive_source() {
	local type=$1 mirror
	shift
	mirror=$(archive_mirror) || { echo "no archive of Debian or Ubuntu among apt's sources" >&2; return 1; }
	echo "$type [signed-by=/usr/share/keyrings/$(os ID)-archive-keyring.gpg] $mirror $*"
}

# of_distribution: those lines of a table on standard input that begin with the name of this
# distribution, without it.
of_distribution() { sed -n "s/^$(os ID) //p"; }

# apt_aside DIR SOURCES: an apt with its own sources and lists under DIR, so that the system's stay
# as they are.
# Prints the file for APT_CONFIG.
apt_aside() {
	local dir=$1 sources=$2
	mkdir -p "$dir"/{lists/partial,archives/partial}
	: >"$dir/status"
	printf '%s\n' "$sources" >"$dir/sources.list"
	cat >"$dir/apt.conf" <<-EOF
		Dir::State "$dir";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir";
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		APT::Sandbox::User "root";
		# What is fetched is known by its SHA-256; a mirror that lags behind will do.
		Acquire::Check-Valid-Until "false";
	EOF
	APT_CONFIG=$dir/apt.conf apt-get update >&2
	printf '%s' "$dir/apt.conf"
}

# make_venv DIR LIST: a virtual environment of Python with the packages of scripts/LIST, which names
# them by their hashes.
make_venv() {
	rm -rf "$1"
	python3 -m venv "$1" || return 1
	"$1/bin/pip" install --disable-pip-version-check --only-binary :all: --require-hashes -r "$ROOT/scripts/$2"
}

# make_whole_venv DIR LIST: the same; DIR is there only when it holds everything.
make_whole_venv() {
	rm -rf "$1"
	make_venv "$1.new" "$2" || return 1
	mv "$1.new" "$1"
}
