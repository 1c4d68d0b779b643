package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// sum computes the hash from the node's own keywords and its children's hashes. It writes every part with a tag and a length, so
// that different schemas never write the same bytes.
func (n *Node) sum() Hash {
	var b buf
	b.str('t', n.Type)
	b.flag('n', n.Nullable)
	b.flag('i', n.IntOrString)
	b.flag('u', n.PreserveUnknown)
	b.flag('e', n.Embedded)
	if n.HasDefault {
		b.json('d', n.Default)
	}
	for _, v := range n.Enum {
		b.json('E', v)
	}
	b.str('f', n.Format)
	b.str('p', n.Pattern)
	b.int('l', n.MinLength)
	b.int('L', n.MaxLength)
	b.float('m', n.Minimum)
	b.float('M', n.Maximum)
	b.flag('x', n.ExclusiveMinimum)
	b.flag('X', n.ExclusiveMaximum)
	b.float('*', n.MultipleOf)
	b.child('I', n.Items)
	b.int('a', n.MinItems)
	b.int('A', n.MaxItems)
	b.flag('q', n.UniqueItems)
	for _, p := range n.Properties {
		b.str('P', p.Name)
		b.child('c', p.Node)
	}
	b.child('+', n.Additional)
	if n.AdditionalBool != nil {
		b.flag('1', *n.AdditionalBool)
		b.flag('0', !*n.AdditionalBool)
	}
	for _, r := range n.Required {
		b.str('r', r)
	}
	b.int('o', n.MinProperties)
	b.int('O', n.MaxProperties)
	b.children('&', n.AllOf)
	b.children('|', n.AnyOf)
	b.children('^', n.OneOf)
	b.child('!', n.Not)
	b.str('T', n.ListType)
	for _, k := range n.ListMapKeys {
		b.str('K', k)
	}
	b.str('g', n.MapType)
	for _, r := range n.Rules {
		b.str('R', r.Rule)
		if r.OptionalOldSelf != nil && *r.OptionalOldSelf {
			b.flag('S', true)
		}
	}
	for _, o := range n.Odd {
		b.str('?', o)
	}
	b.str('%', string(n.odd))
	full := sha256.Sum256(b.b)
	return Hash(full[:16])
}

type buf struct{ b []byte }

func (b *buf) str(tag byte, s string) {
	if s == "" {
		if tag == 'P' || tag == 'r' || tag == 'K' || tag == 'R' {
			b.b = append(b.b, tag, 0)
		}
		return
	}
	b.b = append(b.b, tag)
	b.b = binary.AppendUvarint(b.b, uint64(len(s)))
	b.b = append(b.b, s...)
}

func (b *buf) flag(tag byte, v bool) {
	if v {
		b.b = append(b.b, tag)
	}
}

func (b *buf) int(tag byte, v *int64) {
	if v != nil {
		b.b = binary.AppendVarint(append(b.b, tag), *v)
	}
}

func (b *buf) float(tag byte, v *float64) {
	if v != nil {
		b.b = binary.BigEndian.AppendUint64(append(b.b, tag), math.Float64bits(*v))
	}
}

func (b *buf) child(tag byte, n *Node) {
	if n != nil {
		b.b = append(append(b.b, tag), n.hash[:]...)
	}
}

func (b *buf) children(tag byte, ns []*Node) {
	if len(ns) == 0 {
		return
	}
	hs := make([][]byte, len(ns))
	for i, n := range ns {
		hs[i] = n.hash[:]
	}
	slices.SortFunc(hs, bytes.Compare) // the order of junctors does not matter
	b.b = binary.AppendUvarint(append(b.b, tag), uint64(len(ns)))
	for _, h := range hs {
		b.b = append(b.b, h...)
	}
}

func (b *buf) json(tag byte, v any) { b.b = AppendValue(append(b.b, tag), v) }

// AppendValue appends bytes to b that identify the decoded JSON value v. The API server distinguishes 1 and 1.0, so their bytes
// differ at any depth. The bytes of one value are never a prefix of another's.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return binary.AppendVarint(append(b, 'i'), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case string:
		return append(binary.AppendUvarint(append(b, 's'), uint64(len(v))), v...)
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, x := range v {
			b = AppendValue(b, x)
		}
	case map[string]any:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
			b = AppendValue(b, v[k])
		}
	}
	return b
}
