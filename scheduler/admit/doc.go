// Package admit holds the admission policies. An Orderer does not see jobs that are not admitted
// yet.
//
// An admission policy limits how many jobs compete at a time; it does not reorder them. Jobs are
// admitted in the order of arrival, so an order by arrival is the same under any policy. Only a
// quota has one queue for each tenant.
//
// Read load.go first.
package admit
