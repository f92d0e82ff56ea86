package scenarios

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// enterChroot makes a root directory that is not a mount point, with what programs need mounted
// below it, and runs a script there. With "mounted" it does first what phos says about that.
const enterChroot = `
set -euo pipefail
new=$1/root
mkdir -p $new/{usr,proc,sys,dev,run,tmp,etc,ckpt,var/log} $new$2 $new$3 $new$6
for dir in /bin /sbin /lib /lib64; do
	if [ -L $dir ]; then ln -sfn "$(readlink $dir)" $new$dir; elif [ -d $dir ]; then mkdir -p $new$dir && mount --rbind $dir $new$dir; fi
done
for dir in /usr /sys /dev $2 $3 $6; do mount --rbind $dir $new$dir; done
mount -t proc proc $new/proc
mount -t tmpfs none $new/run
[ $4 = bare ] || mount --rbind $new $new
exec chroot $new bash -euc "$5" bash $3 $4 $6
`

// inChroot looks for a CRIU as build.sh does, starts phosd and asks it for a checkpoint of a
// process, and for a restore if there is an image. It prints what they say.
const inChroot = `
[ $2 = mounted ] || PHOS_CACHE=/tmp/cache CRIU_PREFIX=/nowhere \
	bash -euc '. $0/lib.sh; . $0/criu.sh; need_criu; echo "found [$CRIU]"' $3
printf 'criu = "%s/criu"\nstate_dir = "/ckpt/state"\n' $1 >/run/phosd.toml
pos_cli --start --gpus soft:1 --config=/run/phosd.toml --log-file=/run/log --log-level=debug
pos_cli --status
sleep 1000 </dev/null >/dev/null 2>&1 &
pos_cli --pre-dump --dir /ckpt/$2 --pid $! && echo saved
kill $!
[ $2 = mounted ] || pos_cli --restore --new-pids --detach --dir /ckpt/mounted || true
ls /ckpt
grep -o 'msg=step.*' /run/log || true
pos_cli --stop
`

// TestChroot: CRIU cannot work where no mount is the root directory. phosd says so, and what to do,
// at the start, and refuses a checkpoint before anything stops. What it says to do helps. The demo
// and the tests, which look for a CRIU by build.sh, skip their steps with the same reason.
func TestChroot(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	dir := t.TempDir()
	run := func(how string) string {
		command := exec.Command("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "setsid",
			"--wait",
			"bash", "-c", enterChroot, "bash", dir, harness.Bin(), filepath.Dir(criu), how, inChroot, harness.Path("scripts"))
		command.Env = []string{"PATH=" + harness.Bin() + ":/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
		output, err := run(t, command)
		if strings.Contains(output, "unshare failed") {
			harness.Need(t, "root", err)
		}
		return output
	}
	const text, remedy = "the root directory is not a mount point", "mount --rbind DIR DIR"
	if mounted := run("mounted"); strings.Contains(mounted, text) || !strings.Contains(mounted, "saved\n") {
		t.Errorf("with a mount: %s", mounted)
	}
	bare := run("bare")
	skipped, warned, _ := strings.Cut(bare, "found []\n")
	warned, refused, _ := strings.Cut(warned, "pos_cli --pre-dump: ")
	refused, restore, _ := strings.Cut(refused, "pos_cli --restore: ")
	for part, said := range map[string]string{
		"build.sh": skipped, "--status": warned, "--pre-dump": refused, "--restore": restore,
	} {
		if !strings.Contains(said, text) || !strings.Contains(said, remedy) {
			t.Errorf("%s says %q, want %q and %q", part, said, text, remedy)
		}
	}
	if steps := strings.Count(bare, "msg=step"); steps != 1 || strings.Contains(bare, "\nbare\n") {
		t.Errorf("more was done than to look: %s", bare)
	}
}
