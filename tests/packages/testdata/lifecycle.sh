# shellcheck shell=bash
# What an administrator does with the package, in a bare root. /srv has the packages and a program.
set -euo pipefail

fail() {
	echo "FAILED: $*"
	tail -n 20 /var/log/phosd.log 2>/dev/null || true
	exit 1
}

# within COMMAND...: waits until it succeeds.
within() {
	local i
	for ((i = 0; i < 600; i++)); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	fail "never: $*"
}

# says TEXT COMMAND...: it succeeds and prints the text.
says() {
	local output
	output=$("${@:2}" 2>&1) || fail "${*:2}: $output"
	[[ $output == *"$1"* ]] || fail "${*:2} did not say \"$1\": $output"
}

# refuses TEXT COMMAND...: it fails and prints the text.
refuses() {
	local output
	! output=$("${@:2}" 2>&1) || fail "${*:2} was not refused: $output"
	[[ $output == *"$1"* ]] || fail "${*:2} did not say \"$1\": $output"
}

# files: everything in the root, but what dpkg itself keeps.
files() {
	find / -xdev ! -path '/var/lib/dpkg/*' ! -path /var/log/dpkg.log ! -path '/var/log/alternatives.log' \
		! -path '/var/cache/ldconfig/*' -printf '%p %M %u %l\n' | LC_ALL=C sort
}

# next_version: the package once more, with a later version and another libphos.so.
next_version() {
	local tree=/tmp/next old new
	dpkg-deb -R /srv/dist/phos_*.deb $tree
	echo >>$tree/usr/lib/phos/library/libphos.so
	old=$(basename "$(readlink -f /usr/lib/phos/current)")
	new=$(sha256sum $tree/usr/lib/phos/library/libphos.so | cut -c 1-16)
	sed -i "s/$old/$new/" $tree/DEBIAN/postinst
	sed -i 's/^Version: .*/&.next/' $tree/DEBIAN/control
	rm $tree/DEBIAN/md5sums
	dpkg-deb -Znone -b $tree /tmp/next.deb
	rm -rf $tree
}

steps() { wc -l </srv/work/steps; }
more_than() { [ "$(steps)" -gt "$1" ]; }
phosd_pid() { pgrep -o -x phosd; }
gone() { [ ! -e "/proc/$1/exe" ]; }

files >/tmp/before

echo '# install'
dpkg -i /srv/dist/phos_*.deb
[ -z "$(dpkg -V phos)" ] || fail "files differ from the package: $(dpkg -V phos)"
grep -q '^#level = ' /etc/phos/phosd.toml || fail "phosd.toml does not have all keys"
for page in man1/pos_cli.1 man5/phosd.toml.5 man5/pos.yaml.5 man8/phosd.8; do
	gzip -t /usr/share/man/$page.gz || fail "no manual page $page"
done
systemd-analyze verify --man=no /usr/lib/systemd/system/phosd.service 2>&1 | tee /tmp/verify
! grep phosd /tmp/verify || fail "systemd does not take the unit"
[ -L /etc/systemd/system/multi-user.target.wants/phosd.service ] || fail "the unit is not enabled"

echo '# use'
sed -i "s/^#level = .*/level = 'debug'/" /etc/phos/phosd.toml
says 'phosd is ready' pos_cli --start --gpus soft:1
mkdir /srv/work
cd /srv/work
# The program checks each step on the CPU, and ends with 7 if all are right.
(
	set +e
	HOLD=/srv/work/finish pos_cli run -- /srv/program 1000000 1000 1000 /srv/work/finish >output 2>&1
	echo $? >status
) &
within more_than 10

echo '# a removal is refused while it runs'
refuses 'end the programs, or save them' dpkg -r phos
dpkg -s phos | grep -q '^Status: .* installed$' || fail "a refused removal left: $(dpkg -s phos | grep Status)"
n=$(steps)
within more_than "$n"

echo '# upgrade'
next_version
earlier=$(readlink -f /usr/lib/phos/current)
says 'still runs' dpkg -i /tmp/next.deb
grep -q "^level = 'debug'" /etc/phos/phosd.toml || fail "the upgrade lost the configuration"
[ -e "$earlier/libcuda.so.1" ] || fail "the upgrade removed the libphos.so of running programs"
[ "$(readlink -f /usr/lib/phos/current)" != "$earlier" ] || fail "new programs get the earlier libphos.so"
phosd=$(phosd_pid)
kill "$phosd"
within gone "$phosd"
says 'phosd is ready' pos_cli --start --gpus soft:1
says program pos_cli ps
n=$(steps)
within more_than $((n + 10))
touch /srv/work/finish
within test -s /srv/work/status
[ "$(cat /srv/work/status)" = 7 ] || fail "the program ended with $(cat /srv/work/status): $(tail -n 3 /srv/work/output)"
status=0
(cd /tmp && pos_cli run -- /srv/program 3 1000 0 /srv/work/finish) || status=$?
[ $status = 7 ] || fail "a program of the new version ended with $status"
rm -f /tmp/steps

echo '# remove'
phosd=$(phosd_pid)
says 'a purge removes them' dpkg -r phos
within gone "$phosd"
for kept in /etc/phos/phosd.toml /var/lib/phos; do [ -e $kept ] || fail "the removal took $kept away"; done
[ ! -e /usr/lib/phos ] || fail "the removal left $(find /usr/lib/phos)"
[ ! -e /run/phos ] || fail "the removal left $(find /run/phos)"

echo '# purge'
says 'images stay' dpkg -P phos
files >/tmp/after
diff /tmp/before /tmp/after || fail "the purge left or took what is above"
echo '# done'
