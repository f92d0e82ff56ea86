package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// job is a program in a machine that counts on the GPU and checks each step. It writes its steps to
// a file and to its output.
type job struct {
	m *machine
	// dir is its working directory; user is the account that it runs as.
	dir, user string
}

// counting is the path of the program in a machine.
const counting = "/srv/count"

// jobs copies the program into a machine, together with "other", another build.
func (m *machine) jobs() {
	m.t.Helper()
	dir := m.t.TempDir()
	text, err := os.ReadFile(harness.CompileC(m.t, true, harness.Workload("checkpoint", "count.c")))
	if err != nil {
		m.t.Fatal(err)
	}
	for name, text := range map[string][]byte{"count": text, "other": harness.ChangeBuildID(m.t, text)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	m.put(dir, "/srv")
	m.run("chmod 755 /srv")
}

// job prepares a job for a user.
func (m *machine) job(name, user string) *job {
	m.t.Helper()
	j := &job{m: m, dir: filepath.Join("/srv", name), user: user}
	m.run(fmt.Sprintf("install -d -o %s %s", user, j.dir))
	return j
}

// command returns a command that runs the program until the file "enough" is in its directory.
func (j *job) command() string {
	return fmt.Sprintf("cd %s && exec env $phos %s 100000 5000 50000 finish", j.dir, counting)
}

// login starts the program in a session of its user, which lasts until leave is called.
func (j *job) login() (leave func()) {
	j.m.t.Helper()
	leave = j.m.login(j.user, "("+j.command()+" >out 2>&1 </dev/null)")
	j.waitSteps(10)
	return leave
}

// asUnit creates a unit for the program, with more lines for its service, and starts it.
func (j *job) asUnit(name string, more ...string) {
	j.m.t.Helper()
	j.m.run(fmt.Sprintf(`cat >/etc/systemd/system/%s.service <<'END'
[Unit]
Wants=phosd.service
After=phosd.service
[Service]
User=%s
ExecStart=/bin/sh -c '. /etc/profile.d/phos.sh; %s'
%s
END
systemctl daemon-reload; systemctl start %s`, name, j.user, j.command(), strings.Join(more, "\n"), name))
}

// waitSteps waits until the program has run that many steps.
func (j *job) waitSteps(steps int) {
	j.m.t.Helper()
	j.m.eventually(
		fmt.Sprintf("%s has taken %d steps", j.dir, steps),
		fmt.Sprintf("[ $(wc -l <%s/steps) -ge %d ]", j.dir, steps),
	)
}

// waitProgress waits until the program has run more steps.
func (j *job) waitProgress() {
	j.m.t.Helper()
	j.waitSteps(j.steps() + 5)
}

func (j *job) steps() (steps int) {
	j.m.t.Helper()
	if _, err := fmt.Sscan(j.m.run("wc -l <"+j.dir+"/steps"), &steps); err != nil {
		j.m.t.Fatal(err)
	}
	return steps
}

// finishAndCompare lets the program finish, and compares its steps with those of an undisturbed
// run.
func (j *job) finishAndCompare() {
	j.m.t.Helper()
	j.m.run("touch " + j.dir + "/finish")
	j.m.eventually("the program ends", fmt.Sprintf("! %s | grep .", j.pids()))
	j.m.run(fmt.Sprintf(`rm %s/finish; rm -rf /srv/want; mkdir /srv/want; cd /srv/want
		env $phos %s $(wc -l <%s/steps) 5000 0 >out || [ $? = 7 ]
		cmp steps %s/steps; [ ! -e %s/out ] || cmp out %s/out`, j.dir, counting, j.dir, j.dir, j.dir, j.dir))
}

// pids lists the processes of the job.
func (j *job) pids() string {
	return fmt.Sprintf("for p in $(pgrep -x count); do [ $(readlink /proc/$p/cwd) != %s ] || echo $p; done", j.dir)
}

// pid returns the pid of the program as phosd reports it.
func (j *job) pid() (pid int) {
	j.m.t.Helper()
	said := j.m.run(j.pids())
	if _, err := fmt.Sscan(said, &pid); err != nil {
		j.m.t.Fatalf("%s: %q: %v", j.dir, said, err)
	}
	return pid
}

// cli runs pos_cli as the job's user.
func (j *job) cli(arguments ...any) string {
	j.m.t.Helper()
	return j.m.runAs(j.user, "pos_cli "+strings.TrimSuffix(fmt.Sprintln(arguments...), "\n"))
}

// waitNoProgram waits until the program does not run. A process that has exited is visible until
// its parent has reaped it.
func (m *machine) waitNoProgram() {
	m.t.Helper()
	m.eventually("no program runs", "! pgrep -x count")
}

// checkNoCgroups checks that no checkpoint has left a cgroup behind.
func (m *machine) checkNoCgroups() {
	m.t.Helper()
	m.eventually("no cgroup is left", "[ -z \"$(find /sys/fs/cgroup -name 'phos.*')\" ]")
}

// login starts a session of a user that runs a script and lasts until leave is called.
func (m *machine) login(user, script string) (leave func()) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := m.shell(ctx, user, script, apart)
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	leave = func() {
		cancel()
		<-ended
	}
	m.t.Cleanup(leave)
	return leave
}

// checkpointDelays are times relative to a checkpoint: before it, during it, at its end.
var checkpointDelays = []time.Duration{
	50 * time.Millisecond,
	300 * time.Millisecond,
	700 * time.Millisecond,
	1500 * time.Millisecond,
}
