package pipeline

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ReadTable reads CSV: it calls header once, then row for each row with its place in the file. want
// describes the columns, for the error about a missing header.
func ReadTable(
	from io.Reader,
	want string,
	header func(columns []string) error,
	row func(at string, fields []string) error,
) error {
	r := csv.NewReader(from)
	r.TrimLeadingSpace = true
	columns, err := r.Read()
	if err != nil {
		return &InputError{Where: "line 1", Problem: "no header", Want: want}
	}
	columns[0] = strings.TrimPrefix(columns[0], "\ufeff")
	if err := header(columns); err != nil {
		return err
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &InputError{Problem: err.Error(), Want: fmt.Sprintf("%d columns", len(columns))}
		}
		line, _ := r.FieldPos(0)
		if err := row(fmt.Sprintf("line %d", line), fields); err != nil {
			return err
		}
	}
}
