// Package bench measures the cost of phos and prints it as a table: every figure is a ratio to a
// reference that is measured in the same run. It does not fail on slow results, because such a test
// would fail on busy machines.
package bench
