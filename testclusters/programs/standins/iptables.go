// Package iptables has the interface that kube-proxy and the kubelet of Kubernetes 1.38 expect of
// sigs.k8s.io/iptables-wrappers, over the package of Kubernetes 1.37 that it came from.
package iptables

import (
	"bytes"
	"context"
	"time"

	"k8s.io/utils/set"
	previous "sigs.k8s.io/iptables-wrappers/pkg/iptables/previous"
)

type (
	Chain        = previous.Chain
	LineData     = previous.LineData
	ParseError   = previous.ParseError
	Protocol     = previous.Protocol
	RulePosition = previous.RulePosition
	Table        = previous.Table
)

const (
	Append           = previous.Append
	ChainForward     = previous.ChainForward
	ChainInput       = previous.ChainInput
	ChainOutput      = previous.ChainOutput
	ChainPostrouting = previous.ChainPostrouting
	ChainPrerouting  = previous.ChainPrerouting
	Prepend          = previous.Prepend
	ProtocolIPv4     = previous.ProtocolIPv4
	ProtocolIPv6     = previous.ProtocolIPv6
	TableFilter      = previous.TableFilter
	TableMangle      = previous.TableMangle
	TableNAT         = previous.TableNAT
)

var (
	ExtractLines    = previous.ExtractLines
	IsNotFoundError = previous.IsNotFoundError
	MakeChainLine   = previous.MakeChainLine
)

// Mode says which iptables to use; a node image has one only, so that it makes no difference here.
type Mode int

const (
	UseInstalledMode Mode = iota
	DetectHostMode
)

type Interface interface {
	DeleteChain(ctx context.Context, table Table, chain Chain) error
	DeleteRule(ctx context.Context, table Table, chain Chain, args ...string) error
	EnsureChain(ctx context.Context, table Table, chain Chain) (bool, error)
	EnsureRule(ctx context.Context, position RulePosition, table Table, chain Chain, args ...string) (bool, error)
	FlushChain(ctx context.Context, table Table, chain Chain) error
	IsIPv6() bool
	Monitor(ctx context.Context, canary Chain, tables []Table, reload func(), interval time.Duration)
	Protocol() Protocol
	Restore(ctx context.Context, data []byte) error
	SaveInto(ctx context.Context, table Table, buffer *bytes.Buffer) error
}

// New returns an error if the machine has no iptables of this protocol.
func New(_ context.Context, protocol Protocol, _ Mode) (Interface, error) {
	family := previous.New(protocol)
	if err := family.Present(); err != nil {
		return nil, err
	}
	return withContext{family}, nil
}

func NewBestEffort(ctx context.Context, mode Mode) map[Protocol]Interface {
	families := map[Protocol]Interface{}
	for _, protocol := range []Protocol{ProtocolIPv4, ProtocolIPv6} {
		if family, err := New(ctx, protocol, mode); err == nil {
			families[protocol] = family
		}
	}
	return families
}

func GetChainsFromTable(save []byte) set.Set[Chain] {
	return set.New(previous.GetChainsFromTable(save).UnsortedList()...)
}

// withContext ignores the contexts, because the package of 1.37 has limits of its own.
type withContext struct{ family previous.Interface }

func (w withContext) DeleteChain(_ context.Context, table Table, chain Chain) error {
	return w.family.DeleteChain(table, chain)
}

func (w withContext) DeleteRule(_ context.Context, table Table, chain Chain, args ...string) error {
	return w.family.DeleteRule(table, chain, args...)
}

func (w withContext) EnsureChain(_ context.Context, table Table, chain Chain) (bool, error) {
	return w.family.EnsureChain(table, chain)
}

func (w withContext) EnsureRule(
	_ context.Context, position RulePosition, table Table, chain Chain, args ...string,
) (bool, error) {
	return w.family.EnsureRule(position, table, chain, args...)
}

func (w withContext) FlushChain(_ context.Context, table Table, chain Chain) error {
	return w.family.FlushChain(table, chain)
}

func (w withContext) IsIPv6() bool { return w.family.IsIPv6() }

func (w withContext) Monitor(
	ctx context.Context, canary Chain, tables []Table, reload func(), interval time.Duration,
) {
	w.family.Monitor(canary, tables, reload, interval, ctx.Done())
}

func (w withContext) Protocol() Protocol { return w.family.Protocol() }

func (w withContext) Restore(_ context.Context, data []byte) error {
	return w.family.RestoreAll(data, previous.NoFlushTables, previous.RestoreCounters)
}

func (w withContext) SaveInto(_ context.Context, table Table, buffer *bytes.Buffer) error {
	return w.family.SaveInto(table, buffer)
}
