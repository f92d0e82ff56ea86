package containers

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

const document = "docs/containers.md"

// room makes a room with dockerd, and the image "trainer" that the document speaks of.
func room(t *testing.T) *recipe.Room {
	t.Helper()
	root, err := harness.Tool("CONTAINER_ROOT")
	harness.Need(t, "containers", err)
	for _, program := range []string{"dockerd", "podman", "newuidmap"} {
		_, err = exec.LookPath(program)
		harness.Need(t, "containers", err)
	}
	r := recipe.NewRoom(t, document)
	r.Run("dockerd --cgroup-parent=phos-recipes >/var/log/dockerd.log 2>&1 &")
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := r.Try("tail -n 30 /var/log/phosd.log; docker ps -a")
			t.Log(said)
		}
		// The cgroups are the machine's.
		_, _ = r.Try(`docker ps -aq | xargs -r docker rm -f; kill "$(cat /run/docker.pid)"
			while [ -e /run/docker.pid ]; do sleep 0.05; done; rmdir /sys/fs/cgroup/{,*/}phos-recipes`)
	})
	r.Eventually("docker version")
	for _, file := range []string{"recipes/train.py", "everyday/gpu.py"} {
		text, err := os.ReadFile(harness.Workload(file))
		if err != nil {
			t.Fatal(err)
		}
		r.Write("/srv/image/app/"+filepath.Base(file), string(text))
	}
	r.Run(fmt.Sprintf("tar -cf /srv/trainer.tar -C %q . -C /srv/image app; docker import /srv/trainer.tar trainer", root))
	return r
}

// half waits until the program of a container has made half of its steps.
func half(r *recipe.Room, container string) {
	r.Eventually(fmt.Sprintf("docker logs %s 2>&1 | grep 'step 50 '", container))
}

// goOn lets a program make the other half, and returns the last line of the container's output.
func goOn(t *testing.T, r *recipe.Room, container string) string {
	t.Helper()
	// The signal ends a restore that has not brought the program back yet.
	r.Eventually(fmt.Sprintf("docker logs %s 2>&1 | grep -E 'step 50 |runs again'", container))
	r.Run("docker kill --signal HUP " + container)
	if status := strings.TrimSpace(r.Run("docker wait " + container)); status != "0" {
		t.Errorf("%s ended with %s, want 0: %s", container, status, r.Run("docker logs --tail 5 "+container+" 2>&1"))
	}
	return r.Run("docker logs --tail 1 " + container)
}

// TestContainers: the recipes in their order. A program that was saved and restored ends with the
// state of one that was not.
func TestContainers(t *testing.T) {
	r := room(t)
	r.Recipe("start")
	want := docker(t, r)
	firstProcess(t, r)
	refusals(t, r)
	podman(t, r, want)
	rootless(t, r, want)
}

// docker runs the recipes with Docker, and returns how the program ends.
func docker(t *testing.T, r *recipe.Room) (want string) {
	t.Helper()
	r.Run(`docker run -d --name undisturbed -v /run/phos:/run/phos -v /usr/local:/usr/local:ro trainer \
		pos_cli run -- python3 /app/train.py`)
	want = goOn(t, r, "undisturbed")
	if !strings.HasPrefix(want, "step 100 ") {
		t.Fatalf("the undisturbed program ended with %q", want)
	}
	r.Recipe("run")
	half(r, "train")
	r.Recipe("save")
	r.Recipe("save-inside")
	if status := r.Recipe("dump"); !strings.Contains(status, "\n137\n") {
		t.Errorf("docker wait after a dump: %q, want 137", status)
	}
	if said, err := r.Try("pos_cli --restore --dir /srv/ckpt/train"); err == nil ||
		!strings.Contains(said, "the program ran in a container") {
		t.Errorf("restore on the host: %v: %s", err, said)
	}
	r.Background("restore")
	if got := goOn(t, r, "train"); got != want {
		t.Errorf("the restored program ended with %q, want %q", got, want)
	}
	r.Eventually("grep -x 0 /run/restore.status")
	r.Recipe("user")
	half(r, "user")
	r.Recipe("user-save")
	r.Background("user-restore")
	if got := goOn(t, r, "user"); got != want {
		t.Errorf("the user's restored program ended with %q, want %q", got, want)
	}
	r.Recipe("less")
	half(r, "less")
	r.Recipe("less-save")
	return want
}

// firstProcess: as the first process of a container, pos_cli run gives the program a high pid,
// collects orphans, and ends as the program does.
func firstProcess(t *testing.T, r *recipe.Room) {
	t.Helper()
	for command, want := range map[string]string{
		`sh -c 'exit 7'`:          "7",
		`sh -c 'kill -TERM $$'`:   "143",
		`/nowhere`:                "127",
		`sh -c 'test $$ -ge 300'`: "0",
		`sh -c '(true &); sleep 0.2; ! grep -q "^State:.Z" /proc/[0-9]*/status'`: "0",
	} {
		for _, terminal := range []string{"", "-t "} {
			said := r.Run("docker run --rm " + terminal + "-v /run/phos:/run/phos -v /usr/local:/usr/local:ro trainer " +
				"pos_cli run --quiet -- " + command + " && echo status 0 || echo status $?")
			if !strings.HasSuffix(said, "status "+want+"\n") {
				t.Errorf("%s%s: %q, want status %s", terminal, command, said, want)
			}
		}
	}
}

// refusals: what the document says does not work is refused with the words of its table.
func refusals(t *testing.T, r *recipe.Room) {
	t.Helper()
	const mounts = " -v /run/phos:/run/phos -v /usr/local:/usr/local:ro -v /srv/ckpt:/srv/ckpt trainer "
	save := func(name string) string {
		return fmt.Sprintf(
			`pos_cli --pre-dump --dir /srv/ckpt/%[1]s --pid "$(pos_cli ps | awk '$3 == "%[1]s" { print $1 }')"`,
			name,
		)
	}
	for _, test := range []struct{ name, options, command, try, want string }{
		{
			name:    "first",
			command: `bash -c 'eval "$(pos_cli --env)"; PHOS_JOB="job_name: first" exec env $phos python3 /app/train.py'`,
			want:    "is the first process of a container",
		},
		{
			name: "filter", options: "--user 1000:1000", command: "pos_cli run --name filter -- python3 /app/train.py",
			want: "has a seccomp filter",
		},
		{
			name: "again", command: "pos_cli run --name again -- python3 /app/train.py",
			try:  save("again") + "; docker exec again pos_cli --restore --dir /srv/ckpt/again",
			want: "it is taken",
		},
		{
			name: "new-pids", command: "pos_cli run --name new-pids -- python3 /app/train.py",
			try:  save("new-pids") + "; docker exec new-pids pos_cli --restore --new-pids --dir /srv/ckpt/new-pids",
			want: "has the container's pid namespace",
		},
	} {
		r.Run("docker run -d --name " + test.name + " " + test.options + mounts + test.command)
		half(r, test.name)
		if test.try == "" {
			test.try = save(test.name)
		}
		if said, err := r.Try(test.try); err == nil || !strings.Contains(said, test.want) {
			t.Errorf("%s: %v: %q, want %q", test.name, err, said, test.want)
		}
		r.Run("docker rm -f " + test.name)
	}
}
