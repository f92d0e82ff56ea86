package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestGolden compares encodings with bytes that were written by hand after doc.go.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		message wire.Message
		want    string
	}{
		{&wire.MemAlloc{Bytesize: 0x1234}, "3412000000000000"},
		{&wire.EventElapsedTimeReply{PMilliseconds: 1.5}, "0000c03f00000000"},
		{&wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlagsReply{NumBlocks: -1}, "ffffffffffffffff"},
		{
			&wire.ModuleGetFunction{Hmod: 0x7002_0000_0001, Name: "add"},
			"0100000002700000" + "0300000000000000" + "6164640000000000",
		},
		{
			&wire.Launch{
				Function: 1, GridX: 2, GridY: 3, GridZ: 4, BlockX: 5, BlockY: 6, BlockZ: 7,
				SharedBytes: 8, Stream: 9, Flags: 1, Params: []byte("12345678"),
			},
			"0100000000000000" + "0200000000000000" + "0300000000000000" + "0400000000000000" + "0500000000000000" +
				"0600000000000000" + "0700000000000000" + "0800000000000000" + "0900000000000000" + "0100000000000000" +
				"0800000000000000" + "3132333435363738",
		},
		{
			&wire.GraphAddDependencies{HGraph: 1, From: wire.MakeWords[uint64](2, 3), To: wire.MakeWords[uint64](4, 5)},
			"0100000000000000" + "1000000000000000" + "0200000000000000" + "0300000000000000" +
				"1000000000000000" + "0400000000000000" + "0500000000000000",
		},
	} {
		got := test.message.Append(nil)
		if hex.EncodeToString(got) != test.want {
			t.Errorf("%T: %x, want %s", test.message, got, test.want)
		}
		back := reflect.New(reflect.TypeOf(test.message).Elem()).Interface().(wire.Message)
		if err := back.Decode(got); err != nil || !reflect.DeepEqual(back, test.message) {
			t.Errorf("%T: decoded %+v, %v", test.message, back, err)
		}
	}
}

// messages lists every message of every call.
func messages() []wire.Message {
	var all []wire.Message
	for _, call := range abi.Calls() {
		for _, m := range []wire.Message{wire.NewMessage(call), wire.NewReply(call)} {
			if m != nil {
				all = append(all, m)
			}
		}
	}
	return all
}

// fill sets every field to a different value.
func fill(m wire.Message) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(strings.Repeat("n", i+3))
		case reflect.Slice:
			f.SetBytes(bytes.Repeat([]byte{byte(i + 1)}, 8*(i+1)))
		case reflect.Float32:
			f.SetFloat(float64(i) + 0.5)
		case reflect.Int32:
			f.SetInt(int64(-i - 1))
		default:
			f.SetUint(uint64(i + 0x80))
		}
	}
}

// TestEveryCall encodes and decodes each message, and truncates it at every length.
func TestEveryCall(t *testing.T) {
	if len(messages()) < 100 {
		t.Fatalf("only %d messages", len(messages()))
	}
	for _, m := range messages() {
		fill(m)
		data := m.Append(nil)
		back := reflect.New(reflect.TypeOf(m).Elem()).Interface().(wire.Message)
		if err := back.Decode(data); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%T: decoded %+v, %v, want %+v", m, back, err, m)
		}
		for n := range data {
			if err := back.Decode(data[:n]); !errors.Is(err, wire.ErrPayload) || !errors.Is(err, abi.InvalidValue) {
				t.Errorf("%T: decode %d of %d bytes: %v", m, n, len(data), err)
			}
		}
		if err := back.Decode(append(data, 0)); !errors.Is(err, wire.ErrPayload) {
			t.Errorf("%T: decode with an extra byte: %v", m, err)
		}
	}
}

// TestRepliesFit checks that every reply fits in its slot.
func TestRepliesFit(t *testing.T) {
	for _, call := range abi.Calls() {
		m := wire.NewReply(call)
		if m == nil {
			continue
		}
		if v := reflect.ValueOf(m).Elem().FieldByName("Log"); v.IsValid() {
			v.SetBytes(make([]byte, 800))
		}
		if n := len(m.Append(nil)); n > wire.SlotDataBytes {
			t.Errorf("%v: reply of %d bytes", call, n)
		}
	}
}

// TestCalls checks the numbers of calls for gaps and duplicates.
func TestCalls(t *testing.T) {
	names := map[string]bool{}
	for _, call := range abi.Calls() {
		if names[call.String()] || strings.HasPrefix(call.String(), "call ") {
			t.Errorf("call %d: name %q", uint16(call), call)
		}
		names[call.String()] = true
	}
	if abi.Call(0).Class() != abi.ClassNone || abi.Call(0xffff).Class() != abi.ClassNone {
		t.Error("unused numbers have a class")
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		fill(m)
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, m := range messages() {
			if err := m.Decode(payload); err != nil {
				if !errors.Is(err, wire.ErrPayload) {
					t.Fatalf("%T: %v", m, err)
				}
				continue
			}
			again := m.Append(nil)
			if len(again) != len(payload) {
				t.Fatalf("%T: %d bytes became %d", m, len(payload), len(again))
			}
		}
	})
}
