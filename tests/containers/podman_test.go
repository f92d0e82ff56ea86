package containers

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/recipe"
)

// podman runs recipes as root with Podman in Docker's place.
func podman(t *testing.T, r *recipe.Room, want string) {
	t.Helper()
	// The room has no systemd, and some machines have cgroups of both versions.
	r.Write("/etc/containers/containers.conf", `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`)
	r.Run("podman import /srv/trainer.tar trainer")
	replaced := func(name string) string { return strings.ReplaceAll(r.Text(name), "docker", "podman") }
	r.Run(replaced("run"))
	r.Eventually("podman logs train 2>&1 | grep 'step 50 '")
	r.Run(replaced("save-inside"))
	r.Run(replaced("dump"))
	r.Run("(" + strings.TrimSpace(replaced("restore")) + ") >/run/podman.log 2>&1 &")
	r.Eventually("podman logs train 2>&1 | grep 'runs again'")
	if got := podmanGoOn(r, "train"); got != want {
		t.Errorf("with Podman the restored program ended with %q, want %q", got, want)
	}
}

// podmanGoOn lets the program make the other half of its steps, and returns its last line.
func podmanGoOn(r *recipe.Room, container string) string {
	return r.Run("podman kill --signal HUP " + container + " >/dev/null; podman wait " + container +
		" >/dev/null; podman logs --tail 1 " + container)
}

// rootless runs the recipe of a user without root.
func rootless(t *testing.T, r *recipe.Room, want string) {
	t.Helper()
	const user = "runner"
	r.Run(`useradd --create-home --home-dir /srv/home ` + user + `
		for each in /etc/subuid /etc/subgid; do echo ` + user + `:200000:65536 >>$each; done
		install -d -m 700 -o ` + user + ` /run/user /run/user/` + user + `; chmod 755 /run/user`)
	as := func(script string) string {
		return "cd /srv/home; setpriv --reuid " + user + " --regid " + user + " --init-groups env HOME=/srv/home " +
			"XDG_RUNTIME_DIR=/run/user/" + user + " bash -eu <<'END'\n" + script + "\nEND\n"
	}
	r.Run(as("podman import /srv/trainer.tar trainer"))
	r.Run(as(r.Text("rootless")))
	r.Eventually(as("podman logs rootless 2>&1 | grep 'step 50 '"))
	said, err := r.Try(as(`pos_cli --pre-dump --dir image --pid "$(pos_cli ps | awk '$3 == "rootless" { print $1 }')"`))
	if err == nil || !strings.Contains(said, "runs in another user namespace (a rootless container)") {
		t.Errorf("a checkpoint of a rootless container: %v: %q", err, said)
	}
	got := r.Run(as("podman kill --signal HUP rootless >/dev/null; podman wait rootless >/dev/null; podman logs --tail 1 rootless"))
	if got != want {
		t.Errorf("the rootless program ended with %q, want %q", got, want)
	}
}
