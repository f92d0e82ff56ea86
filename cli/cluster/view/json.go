package view

import (
	"encoding/json"
	"io"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON prints a value of Object or Objects, indented. Names are those of the messages. Times are
// numbers, and fields that are not set are there, too.
func JSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// Line prints a value as one line of JSON.
func Line(to io.Writer, value any) error { return json.NewEncoder(to).Encode(value) }

// Object returns a message as a value for JSON.
func Object(m proto.Message) map[string]any { return object(m.ProtoReflect()) }

// Objects returns messages as values for JSON.
func Objects[M proto.Message](messages []M) []any {
	all := make([]any, 0, len(messages))
	for _, each := range messages {
		all = append(all, Object(each))
	}
	return all
}

// object converts a message. Unlike protojson, 64-bit numbers stay numbers.
func object(m protoreflect.Message) map[string]any {
	fields := m.Descriptor().Fields()
	converted := make(map[string]any, fields.Len())
	for i := range fields.Len() {
		field := fields.Get(i)
		name := string(field.Name())
		if field.HasOptionalKeyword() && !m.Has(field) {
			converted[name] = nil
			continue
		}
		converted[name] = value(field, m.Get(field))
	}
	return converted
}

// value converts a field: a list, a map, or one value.
func value(field protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case field.IsMap():
		converted := map[string]any{}
		v.Map().Range(func(key protoreflect.MapKey, each protoreflect.Value) bool {
			converted[key.String()] = single(field.MapValue(), each)
			return true
		})
		return converted
	case field.IsList():
		converted := make([]any, 0, v.List().Len())
		for i := range v.List().Len() {
			converted = append(converted, single(field, v.List().Get(i)))
		}
		return converted
	}
	return single(field, v)
}

// single converts one value. A message that is not set is null.
func single(field protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if field.Kind() != protoreflect.MessageKind {
		return v.Interface()
	}
	if !v.Message().IsValid() {
		return nil
	}
	return object(v.Message())
}

// Clock returns a time as JSON has it: RFC 3339 in UTC, with milliseconds.
func Clock(unixNS int64) string { return time.Unix(0, unixNS).UTC().Format("2006-01-02T15:04:05.000Z") }
