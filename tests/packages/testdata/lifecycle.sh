# shellcheck shell=bash
# What an administrator does with the packages, in a bare root. /srv has the packages, the command
# of docs/packages.md that installs them, and a program. Where phos-criu can be installed, the
# program is saved, killed and restored, before the upgrade and after it.
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

# files: everything in the root, but what dpkg and apt themselves keep.
files() {
	find / -xdev ! -path '/var/lib/dpkg/*' ! -path /var/log/dpkg.log ! -path '/var/log/alternatives.log' \
		! -path '/var/cache/ldconfig/*' ! -path '/var/cache/debconf/*' ! -path '/var/lib/apt/*' \
		! -path '/var/cache/apt/*' ! -path '/var/log/apt/*' \
		-printf '%p %M %u %l\n' | LC_ALL=C sort
}

# installed: the packages of the installation.
# shellcheck disable=SC2016 # dpkg-query expands it
installed() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'phos*' | sed -n 's/^installed //p'; }

# next_versions: the packages once more, with a later version, and phos with another libphos.so.
next_versions() {
	local package tree=/tmp/next/tree old new
	mkdir /tmp/next
	for package in $(installed); do
		dpkg-deb -R /srv/dist/"$package"_*.deb $tree
		if [ "$package" = phos ]; then
			echo >>$tree/usr/lib/phos/library/libphos.so
			old=$(basename "$(readlink -f /usr/lib/phos/current)")
			new=$(sha256sum $tree/usr/lib/phos/library/libphos.so | cut -c 1-16)
			sed -i "s/$old/$new/" $tree/DEBIAN/postinst
		fi
		sed -i 's/^Version: .*/&.next/' $tree/DEBIAN/control
		rm $tree/DEBIAN/md5sums
		dpkg-deb -Znone -b $tree "/tmp/next/$package.deb"
		rm -rf $tree
	done
}

# restored: saves the program, kills it, and restores it; it must go on where it was saved.
restored() {
	local n program
	[ $checkpoints = yes ] || return 0
	program=$(pgrep -x program)
	pos_cli --pre-dump --dir /srv/image --pid "$program" || fail "the checkpoint failed"
	n=$(steps)
	within more_than "$n"
	kill -9 "$program"
	within test -s status
	[ "$(cat status)" = 137 ] || fail "the killed program ended with $(cat status)"
	rm status
	n=$(steps)
	(
		set +e
		pos_cli --restore --dir /srv/image >>output 2>&1
		echo $? >status
	) &
	within more_than "$n"
}

steps() { wc -l </srv/work/steps; }
more_than() { [ "$(steps)" -gt "$1" ]; }
phosd_pid() { pgrep -o -x phosd; }
gone() { [ ! -e "/proc/$1/exe" ]; }

node_is_ready() { [[ "$(phos node list)" =~ $machine\ +ready ]]; }

# starts DAEMON: runs the line of its unit, as systemd does. What it tells systemd is in
# /tmp/DAEMON.told.
starts() {
	local line
	line=$(sed -n 's/^ExecStart=//p' "/usr/lib/systemd/system/$1.service")
	perl -MSocket -e '
		socket(my $socket, PF_UNIX, SOCK_DGRAM, 0) or die $!;
		bind($socket, sockaddr_un($ARGV[0])) or die $!;
		open(my $told, ">", $ARGV[1]) or die $!;
		while (defined recv($socket, my $said, 4096, 0)) { syswrite($told, "$said\n") }
	' "/tmp/$1.socket" "/tmp/$1.told" &
	within test -S "/tmp/$1.socket"
	# shellcheck disable=SC2086 # the line has words
	NOTIFY_SOCKET=/tmp/$1.socket $line >"/tmp/$1.log" 2>&1 &
}

files >/tmp/before

echo '# install'
checkpoints=no
if [ -d /srv/debs ] && compgen -G '/srv/dist/phos-criu_*.deb' >/dev/null; then
	checkpoints=yes
	apt-get update
	(cd /srv && bash -euo pipefail install.sh)
else
	dpkg -i /srv/dist/phos_*.deb
fi
[ -z "$(dpkg -V phos)" ] || fail "files differ from the package: $(dpkg -V phos)"
grep -q '^#level = ' /etc/phos/phosd.toml || fail "phosd.toml does not have all keys"
for page in man1/{pos_cli,phos}.1 man5/{phosd.toml,pos.yaml}.5 man8/{phosd,phos-controller,phos-agent}.8; do
	gzip -t "/usr/share/man/$page.gz" || fail "no manual page $page"
done
for part in bash-completion/completions/pos_cli zsh/vendor-completions/_pos_cli fish/vendor_completions.d/pos_cli.fish; do
	grep -q pos_cli /usr/share/$part || fail "no completion in /usr/share/$part"
done
grep -q 'systemctl reload phosd' /etc/logrotate.d/phos || fail "the log is rotated without telling phosd"
for file in /etc/phos/phosd.toml /etc/logrotate.d/phos; do says "$file" dpkg -s phos; done # with its conffiles
for unit in phosd phos-controller phos-agent; do
	systemd-analyze verify --man=no "/usr/lib/systemd/system/$unit.service" 2>&1 | tee /tmp/verify
	! grep "$unit" /tmp/verify || fail "systemd does not take the unit of $unit"
done
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
restored

echo '# a removal is refused while it runs'
refuses 'end the programs, or save them' dpkg -r phos
dpkg -s phos | grep -q '^Status: .* installed$' || fail "a refused removal left: $(dpkg -s phos | grep Status)"
n=$(steps)
within more_than "$n"

echo '# a cluster, by the lines of the units'
starts phos-controller
within phos node list
machine=$(hostname)
phos-agent join "$(phos node token --valid 10m | grep -o '[^ ]*@[^ ]*' | head -n 1)"
starts phos-agent
within node_is_ready
for daemon in phos-agent phos-controller; do
	pid=$(pgrep -o -x $daemon)
	kill "$pid"
	within gone "$pid"
	grep -q '^READY=1' "/tmp/$daemon.told" || fail "$daemon did not tell systemd that it is ready: $(cat "/tmp/$daemon.told")"
	rm "/tmp/$daemon".*
done
[ ! -e /run/phos/agent.sock ] || fail "the agent left its socket"
rm -rf /var/lib/phos-controller /var/lib/phos-agent

echo '# upgrade'
next_versions
earlier=$(readlink -f /usr/lib/phos/current)
says 'still runs' dpkg -i /tmp/next/*.deb
for package in $(installed); do says .next dpkg-query -W "$package"; done
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
restored
touch /srv/work/finish
within test -s /srv/work/status
[ "$(cat /srv/work/status)" = 7 ] || fail "the program ended with $(cat /srv/work/status): $(tail -n 3 /srv/work/output)"
status=0
(cd /tmp && pos_cli run -- /srv/program 3 1000 0 /srv/work/finish) || status=$?
[ $status = 7 ] || fail "a program of the new version ended with $status"
rm -f /tmp/steps

echo '# remove'
mapfile -t packages < <(installed)
phosd=$(phosd_pid)
says 'a purge removes them' dpkg -r "${packages[@]}"
within gone "$phosd"
for kept in /etc/phos/phosd.toml /var/lib/phos; do [ -e $kept ] || fail "the removal took $kept away"; done
[ ! -e /usr/lib/phos ] || fail "the removal left $(find /usr/lib/phos)"
[ ! -e /run/phos ] || fail "the removal left $(find /run/phos)"

echo '# purge'
says 'images stay' dpkg -P "${packages[@]}"
[ $checkpoints = no ] || apt-get autoremove --purge
files >/tmp/after
diff /tmp/before /tmp/after || fail "the purge left or took what is above"
echo '# done'
