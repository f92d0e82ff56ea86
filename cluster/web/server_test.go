package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/pipeline/progress/progresstest"
)

// TestForeignPages: requests that a browser makes for another site are refused, whatever they ask.
func TestForeignPages(t *testing.T) {
	s := newSite(t)
	for _, headers := range [][]string{
		{"Host: attacker.example"},
		{"Host: attacker.example:7412", "Origin: http://attacker.example:7412"},
		{"Origin: http://attacker.example"},
		{"Origin: null"},
		{s.own(), "Origin: http://attacker.example"},
		{"Origin: https://" + s.address},
		{"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site"},
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
	} {
		for _, path := range []string{"/api/launches", "/api/me", "/api/follow"} {
			if got := s.ask("GET", path, "", headers...); got.code != http.StatusForbidden {
				t.Errorf("%s with %q: %d", path, headers, got.code)
			}
		}
	}
	if got := s.ask("GET", "/", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"); got.code != http.StatusOK {
		t.Errorf("a link to the page: %d", got.code)
	}
	if got := s.ask("POST", "/api/login", "{}"); got.code != http.StatusForbidden {
		t.Errorf("a login without an origin: %d", got.code)
	}
}

func TestNamesOverTLS(t *testing.T) {
	g := newGuard(true, []string{"head.lab", "10.0.0.1", "::1"})
	for host, good := range map[string]bool{
		"head.lab:7412": true, "HEAD.lab": true, "10.0.0.1:7412": true, "[::1]:7412": true, "[::1]": true,
		"evil.example:7412": false, "": false, "head.lab.evil.example": false, "10.0.0.2": false,
	} {
		for origin, fits := range map[string]bool{"": true, "https://" + host: true, "http://" + host: false, "null": false} {
			if err := g.checkHost(host, origin); (err == nil) != (good && fits) {
				t.Errorf("host %q, origin %q: %v", host, origin, err)
			}
		}
	}
}

// TestLogin: without a login nothing can be changed; with one only the page can.
func TestLogin(t *testing.T) {
	s := newSite(t)
	id := s.cluster.Add(&api.Launch{Name: "a"}).GetId()
	stop := "/api/launches/" + id + "/stop"
	if got := s.ask("POST", stop, "{}", s.own()); got.code != http.StatusUnauthorized {
		t.Errorf("without a login: %d %s", got.code, got.body)
	}
	headers := s.logIn("")
	for i, row := range []struct {
		name string
		use  []string
		want int
	}{
		{"no cookie", []string{headers[0], headers[2]}, http.StatusUnauthorized},
		{"another cookie", []string{headers[0], "Cookie: phos=x", headers[2]}, http.StatusUnauthorized},
		{"no secret", headers[:2], http.StatusForbidden},
		{"another secret", []string{headers[0], headers[1], secretHeader + ": x"}, http.StatusForbidden},
		{"a foreign page", []string{"Origin: http://evil.example", headers[1], headers[2]}, http.StatusForbidden},
	} {
		if got := s.ask("POST", stop, "{}", row.use...); got.code != row.want {
			t.Errorf("%d %s: %d %s", i, row.name, got.code, got.body)
		}
	}
	s.people.connects.Store("eve") // the cookie of ada has come to a server of eve on another port
	if got := s.ask("POST", stop, "{}", headers...); got.code != http.StatusUnauthorized {
		t.Errorf("by another user of the machine: %d %s", got.code, got.body)
	}
	s.people.connects.Store("ada")
	if got := s.ask("POST", stop, "{}", headers...); got.code != http.StatusOK || !strings.Contains(got.body, "stopped") {
		t.Errorf("by the page: %d %s", got.code, got.body)
	}
	if got := s.ask("POST", "/api/logout", "{}", headers...); got.code != http.StatusOK {
		t.Errorf("logout: %d", got.code)
	}
	if got := s.ask("POST", stop, "{}", headers...); got.code != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", got.code)
	}
}

// TestTokens: a token makes its user the caller; unknown users see nothing.
func TestTokens(t *testing.T) {
	s := newSite(t)
	s.people.connects.Store("stranger")
	for _, path := range []string{"/api/me", "/api/follow", "/api/events"} {
		if got := s.ask("GET", path, ""); got.code != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, got.code)
		}
	}
	for body, want := range map[string]int{
		`{}`: 401, `{"token":"guess"}`: 401, `{"token":`: 400, `{"user":"root"}`: 400, `{"token":"` + strings.Repeat("x", 1<<20) + `"}`: 413,
	} {
		if got := s.ask("POST", "/api/login", body, s.own()); got.code != want {
			t.Errorf("%.30s: %d %.100s, want %d", body, got.code, got.body, want)
		}
	}
	headers := s.logIn("token of grace")
	if got := s.ask("GET", "/api/me", "", headers...); !strings.Contains(got.body, `"account":"grace"`) {
		t.Errorf("the caller is %s", got.body)
	}
}

// TestSessions: logins end, and there are not too many.
func TestSessions(t *testing.T) {
	s := newSessions()
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	first := s.add("", "ada")
	if s.find(first.id) != first || s.find("") != nil || s.find(first.secret) != nil {
		t.Error("the login is not found by its id alone")
	}
	now = now.Add(lifetime)
	if s.find(first.id) != nil {
		t.Error("the login does not end")
	}
	second := s.add("", "ada")
	for range maxSessions {
		s.add("", "ada")
	}
	if s.find(second.id) != nil || len(s.open) != maxSessions {
		t.Errorf("there are %d logins", len(s.open))
	}
}

// list is an answer of /api/launches.
type list struct {
	Launches []launch
	More     bool
}

// TestPaging: pages of a list have each launch once, in both directions.
func TestPaging(t *testing.T) {
	s := newSite(t)
	var all []uint32
	for i := range 137 {
		phase := []string{"queued", "running", "ended"}[i%3]
		s.cluster.Add(&api.Launch{Name: fmt.Sprint(i), Phase: phase})
		if phase == "queued" {
			all = append(all, uint32(i+1))
		}
	}
	var forward, back []uint32
	for page, after := (list{More: true}), uint32(0); page.More; after = forward[len(forward)-1] {
		page = list{}
		s.get(fmt.Sprintf("/api/launches?group=queue&limit=10&after=%d", after), &page)
		for _, l := range page.Launches {
			forward = append(forward, l.Number)
		}
	}
	for page, before := (list{More: true}), ""; page.More; before = fmt.Sprint(back[len(back)-1]) {
		page = list{}
		s.get("/api/launches?group=queue&limit=7&before="+before, &page)
		for _, l := range page.Launches {
			back = append(back, l.Number)
		}
	}
	slices.Reverse(back)
	if !slices.Equal(forward, all) || !slices.Equal(back, all) {
		t.Errorf("forward %v, back %v, want %v", forward, back, all)
	}
	var most list
	s.get("/api/launches?limit=4000000000", &most)
	if len(most.Launches) != maxPageLaunches || !most.More {
		t.Errorf("a page has %d launches", len(most.Launches))
	}
	for _, query := range []string{"limit=x", "limit=-1", "before=99999999999", "after=", "group=mine", strings.Repeat("id=a&", 101)} {
		if got := s.ask("GET", "/api/launches?"+query, ""); (got.code == 400) == (query == "after=") {
			t.Errorf("%.40s: %d %s", query, got.code, got.body)
		}
	}
}

// TestHostileTexts: nothing of a user's texts reaches the page that could change others.
func TestHostileTexts(t *testing.T) {
	s := newSite(t)
	hostile := "<img src=x onerror=alert(1)>\x1b]0;owned\a\x1b[2J\u202egnp.exe\u2066</script>\x00\u2028"
	id := s.cluster.Add(&api.Launch{
		Name: hostile, Reason: hostile, Description: hostile, Owner: hostile,
		Replicas: []*api.Replica{{Job: hostile, Phase: "failed", Exits: []*api.Exit{{Error: hostile}}}},
	}).GetId()
	s.cluster.Because(id, hostile)
	s.cluster.Train(id, progresstest.Status(t, hostile, 24))
	s.cluster.Happen(&api.Event{Launch: id, Kind: hostile, Text: hostile, UnixMs: 5})
	s.cluster.Print(id, &api.LogLine{Job: hostile, Text: []byte(hostile + "\xff")})
	texts := []string{
		s.ask("GET", "/api/launches", "").body, s.ask("GET", "/api/launches/"+id, "").body,
		s.ask("GET", "/api/launches/"+id+"/why", "").body, s.ask("GET", "/api/launches/"+"%3Cscript%3E%1b", "").body,
		s.ask("GET", "/api/launches/"+id+"/training", "").body,
	}
	for _, path := range []string{"/api/events", "/api/launches/" + id + "/logs"} {
		next, end := s.stream(path)
		next()
		texts = append(texts, next().data, "")
		if path == "/api/events" {
			texts = append(texts, next().data)
		}
		end()
	}
	for _, text := range texts {
		var decoded any
		if text != "" && json.Unmarshal([]byte(text), &decoded) != nil {
			t.Errorf("no JSON: %q", text)
		}
		for _, bad := range []string{"<", ">", "\x1b", "\\u001b", "\u202e", "\\u202e", "\u2066", "\\u0007", "\\u0000", "\\u2028"} {
			if strings.Contains(text, bad) {
				t.Errorf("%q is in %q", bad, text)
			}
		}
		if shown := fmt.Sprint(decoded); strings.Contains(shown, "owned") || strings.Contains(shown, "[2J") {
			t.Errorf("a sequence for terminals is in %q", shown)
		}
	}
}

// TestEventsResume: a page that comes back gets all events that it does not have, by their keys.
func TestEventsResume(t *testing.T) {
	s := newSite(t)
	const first, second = 40, 25
	happen := func(from, count int) {
		for i := range count {
			s.cluster.Happen(&api.Event{Node: "a", Kind: "k", UnixMs: int64(1_000_000 + (from+i)/4*700)}) // four at each time
		}
	}
	happen(0, first)
	got, last := map[string]int{}, ""
	read := func(next func() received, want int) {
		for len(got) < want {
			e := next()
			var data event
			if err := json.Unmarshal([]byte(e.data), &data); err != nil {
				t.Fatal(err)
			}
			if e.kind == "event" {
				got[data.Key]++
				last = e.id
			}
		}
	}
	next, end := s.stream("/api/events?node=a")
	read(next, first-7) // and is lost in the middle
	end()
	happen(first, second)
	next, _ = s.stream("/api/events?node=a", "Last-Event-ID: "+last)
	again := len(got)
	read(next, first+second)
	if len(got) != first+second || again != first-7 {
		t.Errorf("%d events, want %d", len(got), first+second)
	}
	repeated := 0
	for _, times := range got {
		repeated += times - 1
	}
	if repeated > 16 { // what has happened within eventOverlap
		t.Errorf("%d events were sent again", repeated)
	}
}

// TestLogsFollow: lines arrive as they are printed, and the end is told.
func TestLogsFollow(t *testing.T) {
	s := newSite(t)
	id := s.cluster.Add(&api.Launch{Name: "a", Phase: "running"}).GetId()
	next, _ := s.stream("/api/launches/" + id + "/logs")
	if got := next(); got.kind != "begin" {
		t.Errorf("the stream begins with %v", got)
	}
	for _, text := range []string{"one", "two"} {
		s.cluster.Print(id, &api.LogLine{Job: "main", Replica: 3, Text: []byte(text), UnixNs: 5e9})
		if got := next(); got.kind != "lines" || !strings.Contains(got.data, `"from":"main.3"`) || !strings.Contains(got.data, text) {
			t.Errorf("got %v", got)
		}
	}
	s.cluster.End(id, 0)
	if got := next(); got.kind != "end" || strings.Contains(got.data, `"error":"x`) {
		t.Errorf("got %v", got)
	}
	next, _ = s.stream("/api/launches/none/logs")
	next()
	if got := next(); got.kind != "end" || !strings.Contains(got.data, "not found") {
		t.Errorf("got %v", got)
	}
}

// TestChanges: the page is told which launches have changed.
func TestChanges(t *testing.T) {
	s := newSite(t)
	next, _ := s.stream("/api/follow")
	next()
	if got := next(); got.kind != "changed" || !strings.Contains(got.data, `"all":true`) {
		t.Errorf("the stream does not begin with all: %v", got)
	}
	id := s.cluster.Add(&api.Launch{Name: "a"}).GetId()
	if got := next(); got.kind != "changed" || !strings.Contains(got.data, id) {
		t.Errorf("got %v", got)
	}
}

// TestTooManyStreams: one user cannot keep others from following.
func TestTooManyStreams(t *testing.T) {
	s := newSite(t)
	var ends []func()
	for range maxStreamsOfOne {
		next, end := s.stream("/api/events")
		next()
		ends = append(ends, end)
	}
	if got := s.ask("GET", "/api/events", ""); got.code != http.StatusTooManyRequests {
		t.Errorf("one more: %d", got.code)
	}
	s.people.connects.Store("eve")
	next, end := s.stream("/api/events")
	next()
	end()
	for _, end := range ends {
		end()
	}
}

// TestFiles: the page comes with headers that refuse everything foreign, and has nothing inline.
func TestFiles(t *testing.T) {
	s := newSite(t)
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\sstyle=|\son[a-z]+=|https?://[^"]*\.(js|css)`)
	for _, name := range []string{"/", "/index.html", "/app.js", "/style.css", "/parts.css", "/icon.svg"} {
		got := s.ask("GET", name, "")
		policy := got.header.Get("Content-Security-Policy")
		if got.code != 200 || strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s: %d, policy %q", name, got.code, policy)
		}
		if strings.HasSuffix(name, ".html") && inline.MatchString(got.body) {
			t.Errorf("%s has something inline: %q", name, inline.FindString(got.body))
		}
		if again := s.ask("GET", name, "", "If-None-Match: "+got.header.Get("ETag")); again.code != http.StatusNotModified {
			t.Errorf("%s again: %d", name, again.code)
		}
	}
	for _, bad := range []string{"/../server.go", "/doc.go", "/page/app.js", "/api/", "/api/nothing", "/%2e%2e/server.go"} {
		if got := s.ask("GET", bad, ""); got.code == 200 {
			t.Errorf("%s: %d", bad, got.code)
		}
	}
	for _, name := range []string{"PUT", "DELETE", "POST"} {
		if got := s.ask(name, "/", "", s.own()); got.code != http.StatusNotFound {
			t.Errorf("%s: %d", name, got.code)
		}
	}
}
