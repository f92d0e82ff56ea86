package throughput

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// InputError is an error in a table of models.
type InputError struct {
	Line   int
	Column string // empty if it concerns the whole line
	Value  string
	Want   string
}

// maxQuoted is how much of a bad value an error repeats.
const maxQuoted = 80

func (e *InputError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Want)
	}
	return fmt.Sprintf("line %d: %s is %q, not %s", e.Line, shortened(e.Column), shortened(e.Value), e.Want)
}

// Read reads models from a CSV file whose first row names the columns, in any order, or from
// Gavel's table of throughputs (readGavel). There are two kinds of CSV files.
//
// Measured throughput has a row for each measurement: model, gpus, rate, and optionally gpu_type
// and nodes (default 1). Rates may be in any unit that is the same for all rows of a model. The
// first type of a model is its reference type.
//
// Parameters have a row for each model: model, batch, alpha_c, beta_c, alpha_n, beta_n, alpha_r,
// beta_r, gamma, and optionally max_batch, local_batch and noise, and a column on:TYPE for each
// type of GPU whose speed relative to the reference type is known.
func Read(r io.Reader) ([]*Model, error) {
	in := bufio.NewReader(r)
	if isGavel(in) {
		return readGavel(in)
	}
	rows := csv.NewReader(in)
	rows.FieldsPerRecord = -1
	header, err := rows.Read()
	if err != nil {
		return nil, unreadable(err)
	}
	t := &tableReader{rows: rows, columns: map[string]int{}}
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := t.columns[name]; twice {
			return nil, &InputError{1, "", "", fmt.Sprintf("column %s is listed twice", name)}
		}
		t.columns[name] = i
	}
	if _, ok := t.columns["alpha_c"]; ok {
		return t.all(t.parameters, parameterColumns...)
	}
	return t.all(t.measurement, "model", "gpus", "rate")
}

// unreadable converts an error of the CSV reader.
func unreadable(err error) error {
	var bad *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return &InputError{Line: 1, Want: "a row of column names is missing: the file is empty"}
	case errors.As(err, &bad):
		return &InputError{Line: bad.Line, Want: bad.Err.Error()}
	}
	return fmt.Errorf("table of models: %w", err)
}

// tableReader reads one file.
type tableReader struct {
	rows    *csv.Reader
	columns map[string]int
	models  []*Model
	row     []string
	line    int
	err     error // the first one of this row
}

// all reads every row.
func (t *tableReader) all(one func(), needed ...string) ([]*Model, error) {
	for _, name := range needed {
		if _, ok := t.columns[name]; !ok {
			return nil, &InputError{
				Line: 1,
				Want: fmt.Sprintf("column %s is missing; needed are %s", name, strings.Join(needed, ", ")),
			}
		}
	}
	for {
		row, err := t.rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadable(err)
		}
		t.row = row
		t.line, _ = t.rows.FieldPos(0)
		if len(row) != len(t.columns) {
			return nil, &InputError{
				Line: t.line,
				Want: fmt.Sprintf("%d fields, and the first row names %d columns", len(row), len(t.columns)),
			}
		}
		if one(); t.err != nil {
			return nil, t.err
		}
	}
	if len(t.models) == 0 {
		return nil, &InputError{Line: 1, Want: "no rows after the names of the columns"}
	}
	return t.models, nil
}

// text returns the value of a column, or "" if the file lacks it.
func (t *tableReader) text(column string) string {
	if i, ok := t.columns[column]; ok {
		return strings.TrimSpace(t.row[i])
	}
	return ""
}

// number reads a finite number of at least some value; if the column is missing or empty, it
// returns another.
func (t *tableReader) number(column string, least, otherwise float64) float64 {
	text := t.text(column)
	if text == "" && !math.IsNaN(otherwise) {
		return otherwise
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= least && x <= math.MaxFloat32) {
		t.bad(column, fmt.Sprintf("a number of at least %g", least))
	}
	return x
}

// count reads a whole number of at least 1.
func (t *tableReader) count(column string, otherwise int) int {
	text := t.text(column)
	if text == "" && otherwise > 0 {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		t.bad(column, "a whole number from 1 on")
	}
	return n
}

// bad records the first invalid value of the row.
func (t *tableReader) bad(column, want string) {
	if t.err == nil {
		t.err = &InputError{t.line, column, t.text(column), want}
	}
}

// name returns the row's model name, and the model if an earlier row had it.
func (t *tableReader) name() (string, *Model) {
	name := t.text("model")
	if name == "" {
		t.bad("model", "a name")
	}
	for _, m := range t.models {
		if strings.EqualFold(m.Name, name) {
			return name, m
		}
	}
	return name, nil
}
