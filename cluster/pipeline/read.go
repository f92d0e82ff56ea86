package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadProfile reads a profile: JSON if the first character is a brace, else CSV.
func ReadProfile(from io.Reader) (*Profile, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if len(text) == 0 {
		return nil, &InputError{Problem: "the profile is empty", Want: `JSON as {"layers": [...]} or CSV with a header`}
	}
	var layers []Layer
	if text[0] == '{' {
		layers, err = readJSON(text)
	} else {
		layers, err = readCSV(text)
	}
	if err != nil {
		return nil, err
	}
	return NewProfile(layers)
}

// layerFile is a layer in JSON. Required values are pointers or strings, so that their absence is
// detectable.
type layerFile struct {
	Name            string                 `json:"name"`
	Forward         json.Number            `json:"forward_ms"`
	Backward        json.Number            `json:"backward_ms"`
	StateBytes      json.Number            `json:"state_bytes"`
	ActivationBytes json.Number            `json:"activation_bytes"`
	InNode          map[string]json.Number `json:"allreduce_in_node_ms,omitempty"`
	Across          map[string]json.Number `json:"allreduce_across_ms,omitempty"`
}

type profileFile struct {
	Layers []layerFile `json:"layers"`
}

func readJSON(text []byte) ([]Layer, error) {
	var file profileFile
	if err := decodeStrictly(text, &file); err != nil {
		return nil, err
	}
	return file.layers()
}

// decodeStrictly decodes one JSON value without unknown fields and nothing behind it. Its errors
// say where the input is invalid.
func decodeStrictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return &InputError{
				Where:   lineColumn(text, d.InputOffset()),
				Problem: "more text behind the end",
				Want:    "one JSON object",
			}
		}
		return checkDuplicateKeys(text)
	}
	at := d.InputOffset()
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return &InputError{
			Where: lineColumn(
				text,
				wrongType.Offset,
			), Problem: fmt.Sprintf("%s is a %s", wrongType.Field, wrongType.Value),
			Want: "a " + wrongType.Type.String(),
		}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &InputError{
			Where:   lineColumn(text, int64(len(text))),
			Problem: "the file ends in the middle",
			Want:    "the rest of the JSON",
		}
	}
	return &InputError{Where: lineColumn(text, at), Problem: strings.TrimPrefix(err.Error(), "json: ")}
}

// checkDuplicateKeys returns an error if an object has a key twice: the decoder would silently use
// the last one. Like the decoder, it ignores case.
func checkDuplicateKeys(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	type open struct {
		keys  map[string]bool // nil for a list
		inKey bool            // a key was read, and its value was not
	}
	nest := []open{{}}
	for {
		token, err := d.Token()
		if err != nil {
			return nil // The end: the text is known to be well-formed.
		}
		top := &nest[len(nest)-1]
		if key, ok := token.(string); ok && top.keys != nil && !top.inKey {
			if top.keys[strings.ToLower(key)] {
				return &InputError{
					Where:   lineColumn(text, d.InputOffset()),
					Problem: fmt.Sprintf("%q is listed twice", key),
					Want:    "each key once",
				}
			}
			top.keys[strings.ToLower(key)], top.inKey = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			nest = append(nest, open{keys: map[string]bool{}})
			continue
		case json.Delim('['):
			nest = append(nest, open{})
			continue
		case json.Delim('}'), json.Delim(']'):
			nest = nest[:len(nest)-1]
		}
		nest[len(nest)-1].inKey = false
	}
}

// lineColumn returns an offset as line and column.
func lineColumn(text []byte, offset int64) string {
	before := text[:min(offset, int64(len(text)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	return fmt.Sprintf("line %d, column %d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// layers returns the layers of a profile, or an error that names layer and field.
func (file *profileFile) layers() ([]Layer, error) {
	var layers []Layer
	for i, each := range file.Layers {
		at := fmt.Sprintf("layer %d (%s)", i, each.Name)
		l := Layer{Name: each.Name}
		var err error
		if l.StateBytes, err = readBytes(at, "state_bytes", each.StateBytes.String()); err != nil {
			return nil, err
		}
		if l.ActivationBytes, err = readBytes(at, "activation_bytes", each.ActivationBytes.String()); err != nil {
			return nil, err
		}
		if l.Forward, err = requiredTime(at, "forward_ms", each.Forward.String()); err != nil {
			return nil, err
		}
		if l.Backward, err = requiredTime(at, "backward_ms", each.Backward.String()); err != nil {
			return nil, err
		}
		if l.InNode, err = readTimes(at, "allreduce_in_node_ms", each.InNode); err != nil {
			return nil, err
		}
		if l.Across, err = readTimes(at, "allreduce_across_ms", each.Across); err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// readBytes parses a number of bytes, also as 1e9 or 1000000000.0; 0 if it is missing.
func readBytes(at, field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	bytes, err := parseScaled(text, 1)
	if err != nil {
		return 0, &InputError{Where: at, Problem: fmt.Sprintf("%s: %v", field, err), Want: "a number of bytes"}
	}
	return bytes, nil
}

// requiredTime parses a time that must be present.
func requiredTime(at, field, text string) (time.Duration, error) {
	if text == "" {
		return 0, &InputError{Where: at, Problem: "has no " + field, Want: "milliseconds for one microbatch on one GPU"}
	}
	took, err := ParseMilliseconds(text)
	if err != nil {
		return 0, &InputError{Where: at, Problem: fmt.Sprintf("%s: %v", field, err), Want: "milliseconds"}
	}
	return took, nil
}

// readTimes parses times by number of members.
func readTimes(at, field string, from map[string]json.Number) (map[int]time.Duration, error) {
	if len(from) == 0 {
		return nil, nil
	}
	times := map[int]time.Duration{}
	for key, value := range from {
		members, err := strconv.Atoi(key)
		if err != nil || strconv.Itoa(members) != key {
			return nil, &InputError{
				Where:   at,
				Problem: fmt.Sprintf("%s has a key %q", field, key),
				Want:    "a number of members",
			}
		}
		if times[members], err = requiredTime(at, field+"."+key, value.String()); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// Columns of a CSV profile. The names of all-reduce columns end with the number of members:
// allreduce_in_node_ms_2.
const (
	inNodeColumn = "allreduce_in_node_ms_"
	acrossColumn = "allreduce_across_ms_"
)

var profileColumns = []string{"name", "forward_ms", "backward_ms", "state_bytes", "activation_bytes"}

func readCSV(text []byte) (layers []Layer, err error) {
	var header []string
	err = ReadTable(bytes.NewReader(text), strings.Join(profileColumns, ","), func(columns []string) error {
		header = columns
		return checkHeader(header)
	}, func(at string, row []string) error {
		l, err := readRow(header, row, at)
		layers = append(layers, l)
		return err
	})
	return layers, err
}

func checkHeader(header []string) error {
	for i, name := range header {
		_, inNode := strings.CutPrefix(name, inNodeColumn)
		_, across := strings.CutPrefix(name, acrossColumn)
		if !inNode && !across && !slices.Contains(profileColumns, name) {
			return &InputError{
				Where: "line 1", Problem: fmt.Sprintf("unknown column %q", name),
				Want: strings.Join(profileColumns, ", ") + ", " + inNodeColumn + "N, " + acrossColumn + "N",
			}
		}
		if slices.Contains(header[:i], name) {
			return &InputError{Where: "line 1", Problem: fmt.Sprintf("column %q is listed twice", name)}
		}
	}
	for _, name := range []string{"forward_ms", "backward_ms"} {
		if !slices.Contains(header, name) {
			return &InputError{Where: "line 1", Problem: "no column " + name, Want: "the layers' times"}
		}
	}
	return nil
}

func readRow(header, row []string, at string) (l Layer, err error) {
	l.InNode, l.Across = map[int]time.Duration{}, map[int]time.Duration{}
	for i, name := range header {
		if err := l.set(name, row[i]); err != nil {
			return l, &InputError{Where: at, Problem: fmt.Sprintf("%s: %v", name, err)}
		}
	}
	return l, nil
}

// set parses one field of a row. All but the times may be empty.
func (l *Layer) set(column, text string) (err error) {
	if text == "" && column != "forward_ms" && column != "backward_ms" {
		return nil
	}
	switch column {
	case "name":
		l.Name = text
	case "forward_ms":
		l.Forward, err = ParseMilliseconds(text)
	case "backward_ms":
		l.Backward, err = ParseMilliseconds(text)
	case "state_bytes":
		l.StateBytes, err = parseScaled(text, 1)
	case "activation_bytes":
		l.ActivationBytes, err = parseScaled(text, 1)
	default:
		err = l.setTime(column, text)
	}
	return err
}

// setTime parses an all-reduce time of a row.
func (l *Layer) setTime(column, text string) error {
	times, number := l.InNode, strings.TrimPrefix(column, inNodeColumn)
	if rest, across := strings.CutPrefix(column, acrossColumn); across {
		times, number = l.Across, rest
	}
	members, err := strconv.Atoi(number)
	if err != nil || strconv.Itoa(members) != number {
		return fmt.Errorf("%q is not a number of members", number)
	}
	times[members], err = ParseMilliseconds(text)
	return err
}
