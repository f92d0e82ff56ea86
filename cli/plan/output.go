package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
)

// output is how a result is printed.
type output struct {
	json bool
	svg  string
}

// flags defines --json, and --svg unless picture, which describes the chart, is empty.
func (o *output) flags(flags *flag.FlagSet, picture string) {
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if picture != "" {
		flags.StringVar(&o.svg, "svg", "", "`FILE` for a chart: "+picture)
	}
}

// draw writes the chart, if requested, after it is complete.
func (o *output) draw(picture func(to io.Writer) error) error {
	if o.svg == "" {
		return nil
	}
	return writeWhole(o.svg, picture)
}

// writeWhole writes a file once its content is complete.
func writeWhole(path string, write func(to io.Writer) error) error {
	var whole bytes.Buffer
	if err := write(&whole); err != nil {
		return err
	}
	return os.WriteFile(path, whole.Bytes(), 0o644)
}

func printJSON(to verb.Streams, value any) error {
	e := json.NewEncoder(to.Out)
	e.SetIndent("", " ")
	return e.Encode(value)
}

// printRows prints a table.
func printRows(to verb.Streams, head string, each func(row func(format string, values ...any))) error {
	w := tabwriter.NewWriter(to.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, head)
	each(func(format string, values ...any) { fmt.Fprintf(w, format+"\n", values...) })
	return w.Flush()
}

// milliseconds is a time as a number in JSON.
func milliseconds(ns int64) json.Number { return json.Number(pipeline.Milliseconds(ns)) }
