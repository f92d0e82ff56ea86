package scenarios

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// bare runs a program, a checkpoint and a restore in a root directory without a cgroup hierarchy of
// version 2.
const bare = `
set -eu
for point in $(awk '$3 == "cgroup2" { print $2 }' /proc/self/mounts); do umount -l $point; done
! grep -w cgroup2 /proc/self/mounts
waits() { for _ in $(seq 1200); do ! "$@" || return 0; sleep 0.1; done; echo "never: $*"; cat out; exit 1; }
says() { waits grep -q "^$1" out; }
none() { pos_cli --status | grep -q 'no programs'; }
cd $1
mkfifo in
printf 'criu = "%s"\nstate_dir = "%s/state"\n' "$2" "$PWD" >phosd.toml
pos_cli --start --runtime-dir=$PWD/run --config=$PWD/phosd.toml --log-file=$PWD/phosd.log
eval "$(pos_cli --env)"
env $phos setsid /usr/bin/python3 -u asked.py files <>in >out 2>&1 &
says ready
echo 5 >in; says '5 '
pos_cli --dump --dir image --pid $!
wait $! || true
pos_cli --restore --detach --dir image
echo 3 >in; says '8 '
echo end 0 >in
waits none
pos_cli --stop
! grep -w cgroup2 /proc/self/mounts
`

// TestBare: phosd mounts what a freshly unpacked root lacks, and unmounts it afterwards.
func TestBare(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	harness.Need(t, "python", missing(python))
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	dir := home(t, 0)
	writeData(t, dir, 0)
	command := exec.Command("unshare", "--mount", "--propagation=private", "bash", "-c", bare, "bash", dir, criu)
	command.Env = append(
		command.Environ(),
		"PATH="+harness.Bin()+":/usr/sbin:/usr/bin:/sbin:/bin",
		"PHOS_SOCKET="+filepath.Join(dir, "run/phosd.sock"),
	)
	if output, err := run(t, command); err != nil {
		if strings.Contains(output, "unshare failed") {
			harness.Need(t, "root", err)
		}
		t.Fatalf("%v: %s", err, output)
	}
	checkData(t, dir, 8)
}
