package machine

import (
	"strings"
	"testing"
)

// TestSecondMachine: an image is copied to another machine. Its user needs the first one's key
// there; the same files must be there, and one that is another is named.
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
		second.refuses(user, script, "another machine needs root, or its key")
	}
	second.run("pos_cli image key import first <<<" + strings.TrimSpace(key))
	t.Log(second.runAs(user, check))

	// The same name, another build.
	second.run("mv /srv/count /srv/away; cp -p /srv/other /srv/count")
	for _, script := range []string{check, restore} {
		second.refuses(user, script, "srv/count")
	}
	second.run("rm /srv/count")
	for _, script := range []string{check, restore} {
		second.refuses(user, script, "srv/count")
	}
	second.run("[ -z \"$(pgrep -x count)\" ]; mv /srv/away /srv/count")
	t.Log(second.runAs(user, restore))
	there.goesOn()
	there.ends()
}
