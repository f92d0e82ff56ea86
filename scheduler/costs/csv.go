package costs

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/workload"
)

// The file has a header and one line for each row. Columns are found by name; only save_s and
// load_s are required:
//
//	model,tier,bytes,save_s,load_s,self_save_s,saves,loads
//	,,,2.5,4,600,,                   all jobs; they save themselves every 10 min
//	resnet50,ram,4000000000,0.4,0.6,,17,12
//
// saves and loads count the measurements behind a mean; an estimate has none.
var columns = []string{"model", "tier", "bytes", "save_s", "load_s", "self_save_s", "saves", "loads"}

// Read reads a table. Invalid input is reported as a workload.Error; file is the reader's name in
// it.
func Read(r io.Reader, file string) (*Table, error) {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	lines.TrimLeadingSpace = true
	t := New()
	var names []string
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			if names == nil {
				return nil, &workload.Error{File: file, Want: "a header and costs; the file is empty"}
			}
			return t, nil
		}
		if err != nil {
			return nil, unreadable(file, err)
		}
		line, _ := lines.FieldPos(0)
		l := &fields{file: file, line: line, names: names, values: record}
		if names == nil {
			if names = record; l.header() != nil {
				return nil, l.header()
			}
			continue
		}
		row, err := l.row()
		if err != nil {
			return nil, err
		}
		t.put(row)
	}
}

// unreadable converts an error of the CSV reader.
func unreadable(file string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &workload.Error{File: file, Line: parse.Line, Want: "comma-separated values: " + parse.Err.Error()}
	}
	return err
}

// fields is one line of the file.
type fields struct {
	file   string
	line   int
	names  []string
	values []string
	err    error
}

// header checks the column names.
func (l *fields) header() error {
	for i, name := range l.values {
		if !slices.Contains(columns, name) || slices.Index(l.values, name) != i {
			return l.wrong("", name, "each column once, of "+strings.Join(columns, ", "))
		}
	}
	for _, name := range []string{"save_s", "load_s"} {
		if !slices.Contains(l.values, name) {
			return l.wrong("", strings.Join(l.values, ","), "a column "+name)
		}
	}
	return nil
}

// wrong returns an error about a value of the line.
func (l *fields) wrong(column, value, want string) error {
	return &workload.Error{File: l.file, Line: l.line, Column: column, Value: value, Has: true, Want: want}
}

// row returns the line's row, or the first error in it.
func (l *fields) row() (Row, error) {
	if len(l.values) != len(l.names) {
		return Row{}, l.wrong(
			"",
			strconv.Itoa(len(l.values))+" values",
			strconv.Itoa(len(l.names))+", as in the header",
		)
	}
	row := Row{
		Model: l.text("model"), Tier: l.text("tier"), Bytes: l.count("bytes"),
		Save: l.seconds("save_s"), Load: l.seconds("load_s"),
		SelfSave: l.seconds("self_save_s"), Saves: int(l.count("saves")), Loads: int(l.count("loads")),
	}
	return row, l.err
}

// text returns the value of a column, or "" if the file lacks it.
func (l *fields) text(name string) string {
	if i := slices.Index(l.names, name); i >= 0 {
		return l.values[i]
	}
	return ""
}

// count reads a whole number; an empty value is 0.
func (l *fields) count(name string) int64 {
	text := l.text(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if text != "" && (err != nil || n < 0) && l.err == nil {
		l.err = l.wrong(name, text, "a whole number from 0")
	}
	return n
}

// maxSeconds is the largest allowed cost.
const maxSeconds = 1e7

// seconds returns the time in a column. Only self_save_s may be empty, which means 0.
func (l *fields) seconds(name string) time.Duration {
	text := l.text(name)
	if text == "" && name == "self_save_s" {
		return 0
	}
	s, err := strconv.ParseFloat(text, 64)
	if (err != nil || !(s >= 0) || s > maxSeconds) && l.err == nil {
		l.err = l.wrong(name, text, "seconds, from 0 to 1e7")
		return 0
	}
	return time.Duration(math.Round(s * 1e9))
}

// Write writes a table in the form that Read reads.
func (t *Table) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(columns) // Flush returns the error
	for _, row := range t.Rows() {
		seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
		_ = out.Write([]string{
			row.Model, row.Tier, strconv.FormatInt(row.Bytes, 10), seconds(row.Save), seconds(row.Load), seconds(row.SelfSave),
			strconv.Itoa(row.Saves), strconv.Itoa(row.Loads),
		})
	}
	out.Flush()
	return out.Error()
}
