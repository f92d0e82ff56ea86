package plot

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
)

//go:embed page
var page embed.FS

// scripts make up the page's program, in this order.
var scripts = []string{"axis.js", "chart.js", "lines.js", "gantt.js", "page.js"}

// Page writes a page that needs nothing beside itself: data, program and style are in it, and it
// forbids itself to load anything.
func (a Album) Page(w io.Writer) error {
	data, err := json.Marshal(a.contents())
	if err != nil {
		return fmt.Errorf("encode page: %w", err)
	}
	script := strings.Builder{}
	script.WriteString("'use strict';\n(() => {\n")
	for _, name := range scripts {
		script.WriteString(asset(name))
	}
	script.WriteString("})();")
	title := a.Title
	if title == "" {
		title = "Simulation"
	}
	// One pass, so that nothing in a title is taken for a place to fill. In JSON, < is written in
	// another way: no data ends the script.
	_, err = strings.NewReplacer(
		"{{TITLE}}",
		html.EscapeString(title),
		"{{STYLE}}",
		asset("page.css"),
		"{{DATA}}",
		string(data),
		"{{SCRIPT}}",
		script.String(),
	).WriteString(w, asset("page.html"))
	return err
}

// asset is an embedded file.
func asset(name string) string {
	text, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // It is compiled in.
	}
	return string(text)
}
