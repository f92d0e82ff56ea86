package machine

import (
	"testing"
)

// user is an ordinary one, who logs in.
const user = "ordinary"

// TestSession: who restores a program and leaves it to itself may log out.
func TestSession(t *testing.T) {
	m := boot(t)
	m.jobs()
	j := m.job("job", user)
	leave := j.login()
	where := j.dir + "/image"
	j.cli("--dump --dir", where, "--pid", j.pid())
	leave()
	said, err := m.try(user, "pos_cli --restore --detach --dir "+where, apart)
	t.Log(said)
	if err != nil {
		t.Fatal(err)
	}
	m.run(
		"loginctl list-sessions; loginctl --no-legend list-sessions | grep " + user + " | while read s _; do loginctl show-session $s; done",
	)
	j.goesOn()
	j.ends()
}

// TestShutdown: a program of a login session is saved because the machine goes down, and brought
// back when it is up again.
func TestShutdown(t *testing.T) {
	m := boot(t)
	m.jobs()
	m.highPIDs()
	j := m.job("job", user)
	m.runAs(user, "echo 'checkpoint: {dir: image, on: [exit-signal]}' >"+j.dir+"/pos.yaml")
	j.login()
	m.restart()
	t.Log(m.run("journalctl --no-pager -b -1 -u phosd -n 20 || true; wc -l <" + j.dir + "/steps"))
	t.Log(j.cli("image verify", j.dir+"/image"))
	t.Log(j.cli("--restore --detach --dir", j.dir+"/image"))
	j.goesOn()
	j.ends()
}

// highPIDs lets a machine go on with pids that those who start with it do not have the next time.
func (m *machine) highPIDs() {
	m.t.Helper()
	m.run("echo 30000 >/proc/sys/kernel/ns_last_pid")
}
