package plot

import (
	"embed"
	"fmt"
	"html"
	"io"
	"strings"
)

//go:embed page
var page embed.FS

// scripts are the page's scripts, in this order.
var scripts = []string{"axis.js", "chart.js", "lines.js", "gantt.js", "page.js"}

// Page writes a self-contained page: data, scripts and style are included, and it forbids itself to
// load anything.
func (a Album) Page(w io.Writer) error {
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
	// One pass, so that no placeholder in a title is filled. JSON escapes <, so no data can end the
	// script. The data is written apart: it may be large.
	fill := strings.NewReplacer(
		"{{TITLE}}",
		html.EscapeString(title),
		"{{STYLE}}",
		asset("page.css"),
		"{{SCRIPT}}",
		script.String(),
	)
	before, after, _ := strings.Cut(asset("page.html"), "{{DATA}}")
	if _, err := fill.WriteString(w, before); err != nil {
		return err
	}
	data, all := jsonWriter{out: w}, a.contents()
	if all.write(&data); data.err != nil {
		return fmt.Errorf("write page: %w", data.err)
	}
	_, err := fill.WriteString(w, after)
	return err
}

// asset returns an embedded file.
func asset(name string) string {
	text, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return string(text)
}
