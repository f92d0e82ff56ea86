package cformat

import (
	"math"
	"testing"
)

func TestAppend(t *testing.T) {
	f := math.Float64bits
	for _, test := range []struct {
		format string
		args   []uint64
		want   string
	}{
		{"plain %% %", nil, "plain % %"},
		{"%d|%5d|%-5d|%05d|%+d|% d", []uint64{1, 42, 42, 42, 42, 42}, "1|   42|42   |00042|+42| 42"},
		{"%d %i", []uint64{0xffffffff, 0x80000000}, "-1 -2147483648"},
		{"%u %x %X %o %#x %#o", []uint64{0xffffffff, 0xbeef, 0xbeef, 8, 0xbeef, 8}, "4294967295 beef BEEF 10 0xbeef 010"},
		{"%ld %llu %lx", []uint64{1 << 63, 1 << 63, 255}, "-9223372036854775808 9223372036854775808 ff"},
		{"%.3d|%8.3d|%.0d|", []uint64{5, 5, 0}, "005|     005||"},
		{
			"%f %.2f %8.1f|%-8.1f|%08.2f",
			[]uint64{f(1.5), f(2.345), f(-1), f(1), f(-3.14159)},
			"1.500000 2.35     -1.0|1.0     |-0003.14",
		},
		{"%e %.1E", []uint64{f(12345.678), f(1e-10)}, "1.234568e+04 1.0E-10"},
		{
			"%g %g %g %g %G %.3g",
			[]uint64{f(100000), f(1000000), f(0.0001), f(0.00001), f(1e-20), f(3.14159)},
			"100000 1e+06 0.0001 1e-05 1E-20 3.14",
		},
		{"%f %F %g", []uint64{f(math.Inf(-1)), f(math.Inf(1)), f(math.NaN())}, "-inf INF nan"},
		{"%a", []uint64{f(1)}, "0x1p+0"},
		{"%c%c|%3c|%-3c|", []uint64{'o', 'k', 'x', 'y'}, "ok|  x|y  |"},
		{"%s|%5s|%-5s|%.2s", []uint64{1, 1, 1, 1}, "text| text|text |te"},
		{"%p", []uint64{0x300000000000}, "0x300000000000"},
		{"%*d|%-*d|%.*f", []uint64{4, 7, 4, 7, 1, f(2.25)}, "   7|7   |2.2"},
		{"%hhd %hd %zu", []uint64{3, 4, 5}, "3 4 5"},
		{"%y %", nil, "%y %"},
	} {
		args := test.args
		next := func(uint64) uint64 {
			if len(args) == 0 {
				t.Fatalf("%q: more arguments read than given", test.format)
			}
			v := args[0]
			args = args[1:]
			return v
		}
		got := string(Append(nil, test.format, next, func(uint64) string { return "text" }))
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.format, got, test.want)
		}
		if len(args) != 0 {
			t.Errorf("%q: %d arguments not read", test.format, len(args))
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("%5d %s %-08.3f%%", uint64(7))
	f.Add("%*.*e%", uint64(1<<40))
	f.Add("%#99999999999999x", uint64(0xffff_ffff))
	f.Fuzz(func(t *testing.T, format string, arg uint64) {
		out := Append(nil, format, func(uint64) uint64 { return arg }, func(uint64) string { return "text" })
		if len(out) > (len(format)+1)*(maxWidth+400) {
			t.Errorf("%d bytes from a format of %d", len(out), len(format))
		}
	})
}
