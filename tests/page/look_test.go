package page

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/browser"
)

// views are all views, with what is on them when they have been drawn.
var views = map[string]string{
	"launches": "document.querySelectorAll('.launches tbody tr').length",
	"queue":    "[...document.querySelectorAll('.reasons li')].filter((li) => li.innerText.includes('GPUs')).length > 1",
	"nodes":    "document.querySelectorAll('.node .cell').length >= 48",
	"events":   "document.querySelectorAll('.events li').length > 5",
	"launch/3": "document.querySelectorAll('.log div').length >= 60 && document.querySelectorAll('.replicas .seg').length && document.querySelectorAll('.passes rect').length",
}

// TestLook draws each view on a screen and on a phone, light and dark.
func TestLook(t *testing.T) {
	s := newSite(t)
	s.populate()
	tab := browser.Start(t).Open(1280, 860)
	for _, scheme := range []string{"light", "dark"} {
		tab.Prefer(scheme)
		for view, drawn := range views {
			for name, width := range map[string]int{"desktop": 1280, "phone": 360} {
				tab.Resize(width, 860)
				tab.Go("about:blank")
				tab.Go(s.url(view))
				tab.Await("view "+view+" is drawn", drawn+" && document.querySelectorAll('.glance .number').length")
				tab.Screenshot(s.picture(scheme + "-" + name + "-" + strings.ReplaceAll(view, "/", "-")))
			}
		}
	}
	tab.Quiet()
}
