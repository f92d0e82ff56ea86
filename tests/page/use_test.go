package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/pipeline/progress/progresstest"
	"github.com/phos-gpu/phos/tests/browser"
)

// open opens a view, and waits until it is drawn.
func (s *site) open(width int, view string) *browser.Tab {
	s.Helper()
	tab := browser.Start(s.T).Open(width, 800)
	tab.Go(s.url(view))
	tab.Await("view "+view+" is drawn", views[view]+" && document.querySelectorAll('.glance .number').length")
	return tab
}

// focus describes the element that has the focus.
const focus = `(() => {
  const e = document.activeElement, style = getComputedStyle(e);
  return { name: e.tagName + ' ' + (e.getAttribute('aria-label') || e.innerText || e.id).trim().slice(0, 40),
    visible: e.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    shown: e.getBoundingClientRect().width > 0 };
})()`

// TestKeyboard: everything is reached and done without a mouse, and the focus is always seen.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := s.open(1280, "launches")
	var walk []string
	step := func() string {
		tab.Press("Tab")
		var at struct {
			Name           string
			Visible, Shown bool
		}
		tab.Eval(focus, &at)
		end := strings.HasPrefix(at.Name, "BODY") // the browser's own elements come next
		if !end && (!at.Visible || !at.Shown) {
			t.Errorf("the focus is not to be seen on %q, after %q", at.Name, walk)
		}
		walk = append(walk, at.Name)
		return at.Name
	}
	until := func(name string) {
		t.Helper()
		for range 60 {
			if strings.HasPrefix(step(), name) {
				return
			}
		}
		t.Fatalf("no way to %q: %q", name, walk)
	}
	if first := step(); first != "A Skip to content" {
		t.Errorf("first comes %q", first)
	}
	for _, name := range []string{"A phos", "A Launches", "A Queue", "A Nodes", "A Events", "BUTTON ada", "A 3", "BUTTON Active", "BUTTON Fit", "A eval-nightly"} {
		until(name)
	}
	until("A llama-8b-pretrain")
	tab.Press("Enter")
	tab.Await("the launch is shown", "document.querySelector('h1')?.innerText === 'llama-8b-pretrain' && document.querySelector('.log div')")
	until("BUTTON ada")
	tab.Press("Enter")
	tab.Await("the dialog is open", "document.querySelector('dialog[open]') && document.activeElement.id === 'token'")
	tab.Press("Escape")
	tab.Await("the dialog is closed, and the focus is back", "!document.querySelector('dialog') && document.activeElement.id === 'caller'")
	tab.Press("Enter")
	tab.Await("the dialog is open again", "document.querySelector('dialog[open]')")
	tab.Press("Enter")
	tab.Await("the login is done", "document.getElementById('caller').innerText.includes('log out')")
	tab.Await("the launch can be stopped", "document.querySelector('.danger')")
	tab.Eval("document.getElementById('caller').focus()", nil)
	until("BUTTON Stop")
	tab.Press("Enter")
	tab.Await("a question", "document.querySelector('dialog[open] h2')?.innerText === 'Stop llama-8b-pretrain?'")
	until("BUTTON Stop")
	tab.Press("Enter")
	tab.Await("it has stopped", "document.querySelector('.pill')?.innerText === 'stopped'")
	tab.Quiet()
}

// audit looks for elements without names, for text without contrast, and for what is wider than the
// screen. The contrast is that of the formula of WCAG 2.
const audit = `(() => {
  const bad = [];
  const rgb = (text) => {
    const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    c.fillStyle = text; c.fillRect(0, 0, 1, 1);
    return [...c.getImageData(0, 0, 1, 1).data];
  };
  const seen = new Map();
  const colour = (text) => seen.get(text) ?? (seen.set(text, rgb(text)), seen.get(text));
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (c[3] === 255) return c;
    }
    return [255, 255, 255, 255];
  };
  const name = (e) => e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || e.getAttribute('alt') || e.getAttribute('title') || '';
  const ids = new Set();
  for (const e of document.body.querySelectorAll('*')) {
    if (e.id && ids.has(e.id)) bad.push('two elements have the id ' + e.id);
    ids.add(e.id);
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (box.width === 0 || box.height === 0 || style.visibility === 'hidden' || e.classList.contains('hidden') || e.closest('[hidden]')) continue;
    if (e.matches('a, button, input, select, [tabindex="0"], [role=img]') && !name(e).trim()) bad.push('no name: ' + e.outerHTML.slice(0, 80));
    if (e.matches('a[href], button, select') && box.height < 20) bad.push('too small: ' + e.outerHTML.slice(0, 80));
    if (e.matches('img:not([alt])')) bad.push('no alt: ' + e.outerHTML);
    if (box.right > innerWidth + 1 && !e.closest('svg') && box.left < innerWidth) bad.push('wider than the screen: ' + e.outerHTML.slice(0, 80));
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    if (!own || e.disabled || e.tagName === 'title') continue;
    const text = colour(e instanceof SVGElement ? style.fill : style.color), back = behind(e);
    const [high, low] = [light(text), light(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) bad.push('contrast ' + contrast.toFixed(2) + ': ' + e.outerHTML.slice(0, 80));
  }
  if (document.documentElement.lang === '') bad.push('no language');
  if (document.querySelectorAll('h1').length !== 1) bad.push('there are ' + document.querySelectorAll('h1').length + ' h1');
  if (document.querySelectorAll('main').length !== 1) bad.push('no main');
  return [...new Set(bad)].slice(0, 12);
})()`

// TestAccessible: names, contrast and width, of each view, light and dark, on a screen and a phone.
func TestAccessible(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := browser.Start(t).Open(1280, 800)
	for view, drawn := range views {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{1280, 360} {
				tab.Prefer(scheme)
				tab.Resize(width, 800)
				tab.Go("about:blank")
				tab.Go(s.url(view))
				tab.Await("view "+view+" is drawn", drawn+" && document.querySelectorAll('.glance .number').length")
				var bad []string
				tab.Eval(audit, &bad)
				for _, each := range bad {
					t.Errorf("%s, %s, %d wide: %s", view, scheme, width, each)
				}
			}
		}
	}
}

// TestAuditFinds checks the audit itself with a page that has everything wrong.
func TestAuditFinds(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := s.open(360, "launches")
	tab.Eval(`(() => {
	  const add = (name, change) => { const e = document.createElement(name); change(e); document.querySelector('main').append(e); };
	  add('button', (e) => {});
	  add('p', (e) => { e.textContent = 'pale'; e.style.color = '#999'; e.style.background = '#fff'; });
	  add('div', (e) => { e.style.width = '900px'; e.textContent = 'wide'; });
	  add('h1', (e) => { e.textContent = 'one more'; });
	  add('img', (e) => { e.src = '/icon.svg'; e.width = 10; e.height = 10; });
	  add('p', (e) => { e.id = 'main'; });
	})()`, nil)
	var bad []string
	tab.Eval(audit, &bad)
	found := strings.Join(bad, "\n")
	for _, want := range []string{"no name: <button", "contrast 2.8", "wider than the screen", "there are 2 h1", "no alt", "id main"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q was not found: %s", want, found)
		}
	}
}

// TestStays: nothing moves on the page once it is drawn, though all of it goes on changing.
func TestStays(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := s.open(1280, "launches")
	tab.Eval(`globalThis.shift = 0; new PerformanceObserver((list) => {
	  for (const e of list.getEntries()) globalThis.shift += e.value;
	}).observe({ type: 'layout-shift' })`, nil)
	s.cluster.Change(func() { s.cluster.Nodes[0].Cordoned = true })
	for _, id := range []string{"l-0000000007", "l-0000000003", "l-0000000005"} {
		s.cluster.End(id, 1)
	}
	tab.Await("the launches are gone from the list", "document.querySelectorAll('.launches tbody tr').length === 3")
	var link struct{ Same bool }
	tab.Eval("({ same: document.querySelector('.launches tbody a').href.endsWith('l-0000000008') })", &link)
	if !link.Same {
		t.Error("the first row is another one")
	}
	tab.Eval("document.querySelector('.launches tbody a').focus()", nil)
	s.cluster.End("l-0000000006", 0)
	tab.Await("one more is gone", "document.querySelectorAll('.launches tbody tr').length === 2")
	var held bool
	tab.Eval("document.activeElement === document.querySelector('.launches tbody a')", &held)
	if !held {
		t.Error("the focus was lost when the list changed")
	}
	tab.Quiet()
}

// TestHostileNames: names and lines of users are shown as texts, and nothing of them runs.
func TestHostileNames(t *testing.T) {
	s := newSite(t)
	hostile := `<img src=x onerror="document.title='owned'">"'&` + "\u202e\x1b[31m</script>"
	id := s.add(course{
		name: hostile, owner: hostile, phase: "queued", begin: minute, reason: hostile, gpus: 1,
		replicas: []*api.Replica{on(0, 0, "pending", "")},
	}).GetId()
	s.cluster.Because(id, hostile)
	trains := s.add(course{
		name: "trains", owner: "ada", phase: "running", begin: minute, gpus: 1, replicas: []*api.Replica{on(0, 0, "running", "a")},
	}).GetId()
	s.cluster.Train(trains, progresstest.Status(t, hostile, 24))
	s.cluster.Print(id, &api.LogLine{Job: "main", Text: []byte(hostile), UnixNs: s.now * 1e6})
	s.cluster.Happen(&api.Event{Launch: id, Kind: hostile, Text: hostile, UnixMs: s.now})
	shown := `<img src=x onerror="document.title='owned'">`
	tab := browser.Start(t).Open(360, 800)
	for view, selector := range map[string]string{
		"launches": ".launches th a", "queue": ".reasons li", "events": ".kind", "launch/" + id: ".log .text", "launch/" + trains: ".stages li",
	} {
		tab.Go("about:blank")
		tab.Go(s.url(view))
		tab.Await("the text is shown in "+view, fmt.Sprintf(
			"[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, shown))
		var found struct {
			Images int
			Title  string
			Wide   bool
		}
		tab.Eval("({ images: document.querySelectorAll('main img').length, title: document.title, "+
			"wide: document.documentElement.scrollWidth > innerWidth })", &found)
		if found.Images != 0 || found.Title == "owned" || found.Wide {
			t.Errorf("%s: %+v", view, found)
		}
	}
	tab.Quiet()
}

// TestLost: the page says that the controller is gone, and finds it again by itself.
func TestLost(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := s.open(1280, "launches")
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	tab.Await("the page says so", "!document.getElementById('lost').hidden && document.querySelector('.launches tbody tr')")
	s.add(course{name: "made-in-between", owner: "ada", phase: "queued", begin: second, replicas: []*api.Replica{on(0, 0, "pending", "")}})
	s.serve(s.address)
	tab.Await("the page is back", "document.getElementById('lost').hidden && "+
		"document.querySelector('.launches tbody a').innerText === 'made-in-between'")
	s.add(course{name: "made-after", owner: "ada", phase: "queued", begin: second, replicas: []*api.Replica{on(0, 0, "pending", "")}})
	tab.Await("the page goes on following", "document.querySelector('.launches tbody a').innerText === 'made-after'")
	tab.Quiet("net::ERR_", "ERR_CONNECTION")
}

// TestMany: with ten thousand launches the browser has one page of them.
func TestMany(t *testing.T) {
	s := newSite(t)
	s.populate()
	for i := range 10_000 {
		s.cluster.Add(&api.Launch{
			Name: fmt.Sprintf("sweep-%04d", i), Phase: "queued", SubmittedUnixMs: s.now, WantedGpus: 1,
			Replicas: []*api.Replica{on(0, 0, "pending", "")},
		})
	}
	tab := s.open(360, "launches")
	tab.Await("the newest come first", "document.querySelector('.launches tbody a').innerText === 'sweep-9999'")
	tab.Eval("[...document.querySelectorAll('.pager button')].at(-1).focus()", nil)
	tab.Press("Enter")
	tab.Await("older ones are shown", "document.querySelector('.launches tbody a').innerText === 'sweep-9974'")
	var elements int
	tab.Eval("document.querySelectorAll('*').length", &elements)
	if elements > 2000 {
		t.Errorf("the page has %d elements", elements)
	}
	tab.Quiet()
}

// TestForeignUse: a GPU that something foreign uses says what uses it.
func TestForeignUse(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := s.open(1280, "nodes")
	want := "GPU 6: NVIDIA H100 80GB HBM3, in use by others, used by 1 process outside phos (pid 123 of eve, 4 GiB)"
	var labels []string
	tab.Eval("[...document.querySelectorAll('.cells .gpu-foreign')].map((e) => e.getAttribute('aria-label'))", &labels)
	if !slices.Contains(labels, want) {
		t.Errorf("the labels are %q, want %q among them", labels, want)
	}
}
