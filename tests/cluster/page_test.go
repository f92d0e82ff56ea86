package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/browser"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// pageURL is the page of a controller with the default configuration, on its own host.
const pageURL = "http://127.0.0.1:7412/"

// browserOn starts a browser on a host, as root of that host.
func browserOn(t *testing.T, h *hosts.Host) *browser.Browser {
	t.Helper()
	return browser.StartBy(t, func(arguments []string, pipes []*os.File) error {
		command := h.Command(t.Context(), arguments...)
		command.ExtraFiles = pipes
		return command.Start()
	})
}

// TestPage looks at a real cluster of one host in a browser: launches, their output as it is
// printed, a stop, and a controller that is started again.
func TestPage(t *testing.T) {
	harness.Need(t, "chromium", programOf())
	s := newSite(t, 1, 2)
	id := s.launch(shell(`i=0; while [ ! -e /run/go ]; do sleep 0.1; done; echo "after the file"; exec sleep 3600`, 1, 1))
	waiting := s.launch(shell("exit 0", 1, 2))
	s.awaitRunning(id)
	tab := browserOn(t, s.hosts[0]).Open(1280, 860)
	tab.Go(pageURL)
	tab.Await("both launches are shown", "document.querySelectorAll('.launches tbody tr').length === 2 && "+
		"document.querySelector('.seg.running') && document.querySelector('.seg.queued')")
	tab.Go(pageURL + "#/queue")
	tab.Await("the page says why one waits", "document.querySelector('.queue .reasons')?.innerText.includes('GPU')")
	why, err := s.launches.Why(t.Context(), &api.GetRequest{Id: waiting})
	if err != nil {
		t.Fatal(err)
	}
	if shown := tab.Text(".queue .reasons"); !strings.Contains(shown, why.GetReasons()[0]) {
		t.Errorf("the page says %q, and phos why %q", shown, why.GetReasons())
	}
	tab.Go(pageURL + "#/nodes")
	tab.Await("one GPU is used, one free", "document.querySelectorAll('a.cell.gpu-ours').length === 1 && "+
		"document.querySelectorAll('.cells .gpu-free').length === 1")
	tab.Go(pageURL + "#/launch/" + id)
	tab.Await("the launch is shown", "document.querySelector('.replica') && document.querySelector('.events li')")
	s.write(s.hosts[0], "/run/go", "")
	tab.Await("its line is shown as it is printed", "document.querySelector('.log')?.innerText.includes('after the file')")
	s.controllers[0].Kill()
	s.controllers[0].Start()
	s.await(id, "running")
	tab.Await("the page goes on by itself", "document.getElementById('lost').hidden && document.querySelector('.pill')?.innerText === 'running'")
	s.stopByPage(tab, id)
	s.await(waiting, "ended")
	tab.Quiet("net::ERR_", "503", "ERR_CONNECTION")
}

// programOf returns nil if there is a browser.
func programOf() error {
	_, err := browser.Program()
	return err
}

// stopByPage logs in as the user of the connection, and stops the launch that is shown.
func (s *site) stopByPage(tab *browser.Tab, id string) {
	s.Helper()
	click := func(selector string) {
		s.Helper()
		tab.Await(selector+" is there", fmt.Sprintf("document.querySelector(%q) && !document.querySelector(%q).disabled", selector, selector))
		tab.Eval(fmt.Sprintf("document.querySelector(%q).click()", selector), nil)
	}
	click("#caller")
	click("dialog .primary")
	click(".danger")
	click("dialog .primary")
	if got := s.await(id, "ended"); got.GetResult() != "stopped" {
		s.Errorf("it is %s: %s", got.GetResult(), got.GetReason())
	}
	tab.Await("the page shows it", "document.querySelector('.pill')?.innerText === 'stopped'")
}

// TestPageCallers: the page shows a user of the controller's machine what the API does, and one
// without an account nothing.
func TestPageCallers(t *testing.T) {
	s := newSite(t, 1, 1)
	id := s.launch(shell("exit 0", 1, 0))
	s.await(id, "ended")
	ask := func(uid uint32, path string, headers ...string) string {
		t.Helper()
		// Bash speaks TCP itself; the answer ends with the connection.
		script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/7412; printf '%%s\r\n' 'GET %s HTTP/1.1' 'Connection: close' "$@" '' >&3; cat <&3`, path)
		command := s.hosts[0].Command(context.WithoutCancel(t.Context()), append([]string{"bash", "-c", script, "ask"}, headers...)...)
		out, err := command.As(uid, uid).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const host, daemon, stranger = "Host: 127.0.0.1:7412", 1, 61241
	for _, row := range []struct {
		uid     uint32
		headers []string
		want    string
		sees    bool
	}{
		{0, []string{host}, "200 OK", true},
		{daemon, []string{host}, "200 OK", false},
		{stranger, []string{host}, "401 Unauthorized", false},
		{0, []string{"Host: attacker.example"}, "403 Forbidden", false},
		{0, []string{host, "Origin: http://attacker.example"}, "403 Forbidden", false},
	} {
		got := ask(row.uid, "/api/launches?group=all", row.headers...)
		if !strings.HasPrefix(got, "HTTP/1.1 "+row.want) || strings.Contains(got, id) != row.sees {
			t.Errorf("user %d with %q: %s", row.uid, row.headers, got)
		}
		if one := ask(row.uid, "/api/launches/"+id, row.headers...); strings.Contains(one, `"owner"`) != row.sees {
			t.Errorf("user %d, one launch: %s", row.uid, one)
		}
	}
}
