package machine

import (
	"strings"
	"testing"
)

// TestSecondMachine: an image is copied to another machine. Its user needs the first machine's key
// there. The program's files must be the same there; an error names a file that differs.
func TestSecondMachine(t *testing.T) {
	first := boot(t)
	first.jobs()
	first.highPIDs()
	j := first.job("job", user)
	j.login()
	t.Log(j.cli("--dump --dir", j.dir+"/image", "--pid", j.pid()))
	key := first.run("pos_cli image key export")
	archive := first.pack("/srv")

	second := boot(t)
	second.unpack(archive, "/srv")
	there := &job{m: second, dir: j.dir, user: user}
	check, restore := "pos_cli image check "+j.dir+"/image", "pos_cli --restore --detach --dir "+j.dir+"/image"
	for _, script := range []string{check, restore} {
		second.mustFail(user, script, "another machine needs root, or its key")
	}
	second.run("pos_cli image key import first <<<" + strings.TrimSpace(key))
	t.Log(second.runAs(user, check))

	// The same path with another build.
	second.run("mv /srv/count /srv/away; cp -p /srv/other /srv/count")
	for _, script := range []string{check, restore} {
		second.mustFail(user, script, "srv/count")
	}
	second.run("rm /srv/count")
	for _, script := range []string{check, restore} {
		second.mustFail(user, script, "srv/count")
	}
	second.run("[ -z \"$(pgrep -x count)\" ]; mv /srv/away /srv/count")
	t.Log(second.runAs(user, restore))
	there.waitProgress()
	there.finishAndCompare()
}
