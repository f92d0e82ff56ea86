package record

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/golden"
)

// TestFields: the fields of a version never change, because a reader that does not know one refuses
// the record. A new field, however deep, needs a new version and its list.
func TestFields(t *testing.T) {
	for _, each := range []struct {
		kind    string
		version int
		value   any
	}{
		{"launch", launchVersion, Launch{}},
		{"node", nodeVersion, Node{}},
		{"cluster", clusterVersion, Cluster{}},
		{"controller", controllerVersion, Controller{}},
		{"quotas", quotasVersion, Quotas{}},
		{"uploads", uploadsVersion, Uploads{}},
	} {
		var list strings.Builder
		writeFields(&list, reflect.TypeOf(each.value), "")
		golden.Check(t, fmt.Sprintf("testdata/%s.v%d.fields", each.kind, each.version), []byte(list.String()))
	}
}

// writeFields writes the names of all fields of a type as JSON has them, a line each.
func writeFields(to *strings.Builder, of reflect.Type, above string) {
	if of.Implements(reflect.TypeFor[json.Marshaler]()) || of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return
	}
	switch of.Kind() { //nolint:exhaustive // the others have no fields
	case reflect.Pointer, reflect.Slice, reflect.Array:
		writeFields(to, of.Elem(), above)
	case reflect.Map:
		writeFields(to, of.Elem(), above+".*")
	case reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" || !field.IsExported() {
				continue
			}
			path := strings.TrimPrefix(above+"."+cmp.Or(name, field.Name), ".")
			fmt.Fprintf(to, "%s\n", path)
			writeFields(to, field.Type, path)
		}
	}
}
