package cluster

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/hosts"
)

// Where a user of another host keeps things, on that host's own disk.
const (
	awayHome   = "/var/lib/away"
	awayToken  = awayHome + "/token"
	accessFile = awayHome + "/phos/cluster.json"
)

// person runs pos_cli on a host, as a user whose things are in awayHome.
func (s *site) person(h *hosts.Host, arguments ...string) (said string, err error) {
	command := h.CLI(s.Context(), arguments...)
	command.Env = append(command.Env, "XDG_CONFIG_HOME="+awayHome)
	output, err := command.CombinedOutput()
	return string(output), err
}

// accept runs a command line that must succeed, and returns what it says.
func (s *site) accept(h *hosts.Host, arguments ...string) string {
	s.Helper()
	said, err := s.person(h, arguments...)
	if err != nil {
		s.Fatalf("%v on %s: %v: %s", arguments, h.Name, err, said)
	}
	return said
}

// refuse runs a command line that must fail, and returns what it says.
func (s *site) refuse(h *hosts.Host, arguments ...string) string {
	s.Helper()
	said, err := s.person(h, arguments...)
	if err == nil {
		s.Errorf("%v on %s succeeds: %s", arguments, h.Name, said)
	}
	return said
}

// invite adds a user, and returns the token and the command by which the user logs in.
func (s *site) invite(arguments ...string) (token string, login []string) {
	s.Helper()
	said := s.hosts[s.leader()].RunCLI(append([]string{"user"}, arguments...)...)
	token = regexp.MustCompile(`phos_1\S+`).FindString(said)
	_, line, found := strings.Cut(said, "phos login ")
	if token == "" || !found {
		s.Fatalf("user %v says:\n%s", arguments, said)
	}
	return token, append([]string{"login"}, strings.Fields(line)...)
}

// TestLogin: the holder of a token uses the cluster from a machine that is no part of it. What
// cannot be verified is refused before anything is kept.
func TestLogin(t *testing.T) {
	s := newSite(t, 2, 1)
	away := s.hosts[1]
	token, login := s.invite("add", "ada", "--account", "nobody")
	s.write(away, awayToken, token+"\n")

	wrong := append([]string{"login"}, login[1], "--ca", strings.Repeat("0", 64), "--token-file", awayToken)
	if said := s.refuse(away, wrong...); !strings.Contains(said, "does not have the CA of --ca") {
		t.Errorf("with another CA: %s", said)
	}
	if said := s.refuse(away, append(login, "--token-file", "/etc/hostname")...); !strings.Contains(said, "read the token") {
		t.Errorf("without a token: %s", said)
	}
	if _, err := os.Stat(away.DiskPath(accessFile)); err == nil {
		t.Errorf("%s was written", accessFile)
	}

	said := s.accept(away, append(login, "--token-file", awayToken)...)
	if !strings.Contains(said, "as ada, which runs launches as nobody") || strings.Contains(said, token) {
		t.Errorf("login says: %s", said)
	}
	if mode := strings.TrimSpace(away.Run("stat", "-c", "%a", accessFile)); mode != "600" {
		t.Errorf("the mode of %s is %s", accessFile, mode)
	}
	if said := s.accept(away, "launch", "--no-code", "--wait", "--", "id", "-un"); !strings.Contains(said, "completed") {
		t.Errorf("launch says: %s", said)
	}
	if said := s.accept(away, "logs", "1"); said != "nobody\n" && !strings.HasSuffix(said, ": nobody\n") {
		t.Errorf("the launch printed %q", said)
	}
	if said := s.refuse(away, "user", "list"); !strings.Contains(said, "administrator") {
		t.Errorf("user list says: %s", said)
	}
}

// TestTokensEnd: a token that was replaced or removed is worth nothing, and logout forgets one.
func TestTokensEnd(t *testing.T) {
	s := newSite(t, 2, 1)
	away := s.hosts[1]
	old, login := s.invite("add", "ada", "--role", "viewer")
	s.write(away, awayHome+"/old", old)
	logIn := func(file string) []string { return append(login[:len(login):len(login)], "--token-file", file) }
	s.accept(away, logIn(awayHome+"/old")...)
	s.accept(away, "node", "list")

	next, _ := s.invite("token", "ada")
	s.write(away, awayHome+"/next", next)
	s.refuse(away, "node", "list")
	s.refuse(away, logIn(awayHome+"/old")...)
	s.accept(away, logIn(awayHome+"/next")...)
	s.accept(away, "node", "list")
	if said := s.hosts[0].RunCLI("user", "list"); strings.Count(said, "ada") != 2 { // name and account of one user
		t.Errorf("user list says:\n%s", said)
	}

	s.hosts[0].RunCLI("user", "remove", "ada")
	s.refuse(away, "node", "list")
	s.accept(away, "logout")
	if said := s.refuse(away, "node", "list"); !strings.Contains(said, "phos login HOST:PORT") {
		t.Errorf("without a login: %s", said)
	}
}
