package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/recipe"
)

// user runs the jobs.
const user = "runner"

// cluster makes a room in which phosd and Slurm run, as the document says.
func cluster(t *testing.T) *recipe.Room {
	t.Helper()
	for _, daemon := range []string{"slurmctld", "slurmd", "munged"} {
		_, err := exec.LookPath(daemon)
		harness.Need(t, "slurm", err)
	}
	r := recipe.NewRoom(t, "docs/slurm.md")
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := r.Try("tail -n 20 /var/log/*.log /srv/jobs/*.out; squeue; pos_cli ps")
			t.Log(said)
		}
	})
	r.Run(`hostname node1; echo 10.77.0.1 node1 >>/etc/hosts; useradd --no-create-home --home-dir /srv/jobs ` + user)
	for _, path := range []string{
		"/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/slurm/prolog", "/etc/slurm/epilog", "/srv/jobs/train.sh",
	} {
		r.File(path)
	}
	// Only the times are the test's.
	r.Run(`printf '%s\n' AuthInfo=cred_expire=5 \
		SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0 >>/etc/slurm/slurm.conf`)
	for _, file := range []string{"recipes/train.py", "everyday/gpu.py"} {
		text, err := os.ReadFile(harness.Workload(file))
		if err != nil {
			t.Fatal(err)
		}
		r.Write("/srv/jobs/"+filepath.Base(file), string(text))
	}
	r.Run(`install -d -o munge -g munge /run/munge /var/log/munge /var/lib/munge /etc/munge
		install -d -o slurm -g slurm /var/spool/slurmctld /var/spool/slurmd
		head -c 128 /dev/urandom >/etc/munge/munge.key; chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
		mkdir /srv/ckpt; chown -R ` + user + `: /srv/ckpt /srv/jobs
		pos_cli --start
		setpriv --reuid munge --regid munge --clear-groups munged
		slurmctld; slurmd`)
	r.Eventually("sinfo --noheader --states=idle | grep node1")
	return r
}

// as returns a script that runs a command as the user of the jobs, in their directory.
func as(command string) string {
	return "cd /srv/jobs; setpriv --reuid " + user + " --regid " + user + " --clear-groups env HOME=/srv/jobs " + command
}

// TestPreempted: a job of "low" gives its GPU to a job of "high", and ends with the result of a run
// that was not disturbed. Between, the script is killed, and the epilog ends its program. Then the
// cluster trains in pipelines.
func TestPreempted(t *testing.T) {
	r := cluster(t)
	r.Run(as("pos_cli run --name alone -- python3 train.py >/srv/jobs/alone.out 2>&1 &"))
	r.Eventually("grep 'step 50 ' /srv/jobs/alone.out")
	r.Run(goOn("alone"))
	r.Eventually("grep 'step 100 ' /srv/jobs/alone.out")
	want := r.Run("grep ^step /srv/jobs/alone.out")
	r.RecipeAs(user, "/srv/jobs", "submit")
	r.Eventually("grep 'step 50 ' /srv/jobs/slurm-1.out")
	r.Run(as(`sbatch --partition=high --gres=gpu:1 --wrap 'echo visible "$CUDA_VISIBLE_DEVICES"'`))
	r.Eventually("grep -x 'visible 0' /srv/jobs/slurm-2.out")
	r.Eventually("grep 'runs again' /srv/jobs/slurm-1.out")
	// Its program is no descendant of the script.
	r.Run("pkill --signal KILL --exact slurm_script")
	r.Eventually("pos_cli ps | grep -x 'no programs' && squeue --noheader --states=all --jobs=1 | grep ' F '")
	r.Run("scontrol requeue 1")
	r.Eventually("pos_cli ps | grep 'slurm-1 .* running'")
	r.Run(goOn("slurm-1"))
	r.Eventually("squeue --noheader --states=all --jobs=1 | grep ' CD '")
	if got := r.Run("grep ^step /srv/jobs/slurm-1.out"); got != want {
		t.Errorf("the preempted job printed %s, want %s", got, want)
	}
	r.Run("! pos_cli image list /srv/ckpt/slurm-1")
	trainInPipelines(t, r)
}

// trainInPipelines: a rank of a training is killed, and the others make all steps. The program is
// that of docs/training.md, with more steps.
func trainInPipelines(t *testing.T, r *recipe.Room) {
	t.Helper()
	document, err := os.ReadFile(harness.Path("docs/training.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(document), "```python\n")
	program, _, _ = strings.Cut(program, "```\n")
	const last = 999
	r.Write("/srv/jobs/pipeline.py", strings.Replace(program, "faults=1,", fmt.Sprintf("faults=1, epochs=%d,", (last+1)/10), 1))
	r.Run("cp -r " + harness.Path("python/phos") + " /srv/jobs/")
	r.File("/srv/jobs/pipeline.sh")
	r.RecipeAs(user, "/srv/jobs", "pipeline")
	r.Eventually("grep -h '^50 ' /srv/jobs/slurm-3.out")
	r.Run("pgrep --full '^python3 pipeline.py' | shuf -n 1 | xargs kill -KILL")
	r.Eventually("squeue --noheader --states=all --jobs=3 | grep ' CD '")
	if got := r.Run(fmt.Sprintf("grep -c '^%d ' /srv/jobs/slurm-3.out; ls /srv/jobs/model.pt", last)); got != "2\n/srv/jobs/model.pt\n" {
		t.Errorf("after the loss of one of three ranks: %s", got)
	}
}

// goOn returns a script that lets the program of a job make the other half of its steps.
func goOn(job string) string {
	return fmt.Sprintf("pos_cli ps | awk '$3 == %q { print $1 }' | xargs kill -HUP", job)
}
