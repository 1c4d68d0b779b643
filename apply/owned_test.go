package apply

import (
	"encoding/json"
	"strings"
	"testing"
)

// parse reads JSON that is written with single quotes.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	v, err := decodeObject([]byte(strings.ReplaceAll(text, "'", `"`)))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestOwnershipTellsWhetherAnApplyWouldChangeAnything(t *testing.T) {
	const list = `{'f:spec':{'f:ports':{'.':{},'k:{"port":80,"protocol":"TCP"}':{'.':{},'f:name':{},'f:port':{}},'k:{"port":90,"protocol":"TCP"}':{'.':{},'f:port':{}}}}}`
	for _, c := range []struct {
		name, fields, want, live string
		same                     bool
	}{
		{"a scalar", `{'f:data':{'f:a':{}}}`, `{'data':{'a':'1'}}`, `{'data':{'a':'1','b':'2'}}`, true},
		{"another value", `{'f:data':{'f:a':{}}}`, `{'data':{'a':'1'}}`, `{'data':{'a':'2'}}`, false},
		{"taken by another", `{'f:data':{'f:b':{}}}`, `{'data':{'a':'1'}}`, `{'data':{'a':'1','b':'2'}}`, false},
		{"owned and no longer wanted", `{'f:data':{'f:a':{},'f:b':{}}}`, `{'data':{'a':'1'}}`, `{'data':{'a':'1','b':'2'}}`, false},
		{"a whole field no longer wanted", `{'f:data':{'f:a':{}},'f:immutable':{}}`, `{'data':{'a':'1'}}`, `{'data':{'a':'1'},'immutable':true}`, false},
		{"owned as a whole", `{'f:spec':{'f:selector':{}}}`, `{'spec':{'selector':{'a':'b'}}}`, `{'spec':{'selector':{'a':'b'}}}`, true},
		{"owned as a whole, with more in it", `{'f:spec':{'f:selector':{}}}`, `{'spec':{'selector':{'a':'b'}}}`, `{'spec':{'selector':{'a':'b','c':'d'}}}`, false},
		{"an empty object", `{'f:spec':{'f:emptyDir':{}}}`, `{'spec':{'emptyDir':{}}}`, `{'spec':{'emptyDir':{}}}`, true},
		{"a null that nobody has", `{'f:data':{'f:a':{}}}`, `{'data':{'a':'1','b':null}}`, `{'data':{'a':'1'}}`, true},
		{"a null for what is there", `{'f:data':{'f:a':{}}}`, `{'data':{'a':'1','b':null}}`, `{'data':{'a':'1','b':'2'}}`, false},
		{"numbers", `{'f:spec':{'f:a':{},'f:b':{}}}`, `{'spec':{'a':1,'b':1.5}}`, `{'spec':{'a':1.0,'b':1.5}}`, true},
		{"large numbers", `{'f:spec':{'f:a':{}}}`, `{'spec':{'a':9007199254740993}}`, `{'spec':{'a':9007199254740992}}`, false},
		{"a number and its text", `{'f:spec':{'f:a':{}}}`, `{'spec':{'a':1}}`, `{'spec':{'a':'1'}}`, false},
		{"another type", `{'f:spec':{'f:a':{'f:b':{}}}}`, `{'spec':{'a':{'b':1}}}`, `{'spec':{'a':[1]}}`, false},
		{"a zero value that the server does not store", `{'f:spec':{'f:a':{},'f:b':{},'f:c':{}}}`, `{'spec':{'a':[],'b':'','c':false}}`, `{'spec':{'d':1}}`, true},
		{"another value that the server does not store", `{'f:spec':{'f:a':{}}}`, `{'spec':{'a':'x'}}`, `{'spec':{'d':1}}`, false},
		{"a zero value that nobody owns", `{'f:spec':{'f:d':{}}}`, `{'spec':{'a':[],'d':1}}`, `{'spec':{'d':1}}`, false},
		{"items by key, defaults and others between", list, `{'spec':{'ports':[{'port':80,'name':'x'},{'port':90}]}}`, `{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'x'},{'port':85,'protocol':'TCP'},{'port':90,'protocol':'TCP'}]}}`, true},
		{"items in another order", list, `{'spec':{'ports':[{'port':80,'name':'x'},{'port':90}]}}`, `{'spec':{'ports':[{'port':90,'protocol':'TCP'},{'port':80,'protocol':'TCP','name':'x'}]}}`, false},
		{"an item more", list, `{'spec':{'ports':[{'port':80,'name':'x'},{'port':90},{'port':91}]}}`, `{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'x'},{'port':90,'protocol':'TCP'},{'port':91,'protocol':'TCP'}]}}`, false},
		{"an item less", list, `{'spec':{'ports':[{'port':80,'name':'x'}]}}`, `{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'x'},{'port':90,'protocol':'TCP'}]}}`, false},
		{"a field of an item", list, `{'spec':{'ports':[{'port':80,'name':'y'},{'port':90}]}}`, `{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'x'},{'port':90,'protocol':'TCP'}]}}`, false},
		{"an item that could be either", `{'f:l':{'k:{"a":1,"b":1}':{'f:a':{}},'k:{"a":1,"b":2}':{'f:a':{}}}}`, `{'l':[{'a':1},{'a':1,'b':2}]}`, `{'l':[{'a':1,'b':1},{'a':1,'b':2}]}`, false},
		{"a set", `{'f:metadata':{'f:finalizers':{'.':{},'v:"x"':{},'v:"z"':{}}}}`, `{'metadata':{'finalizers':['x','z']}}`, `{'metadata':{'finalizers':['x','y','z']}}`, true},
		{"a set with less", `{'f:metadata':{'f:finalizers':{'.':{},'v:"x"':{},'v:"z"':{}}}}`, `{'metadata':{'finalizers':['x']}}`, `{'metadata':{'finalizers':['x','z']}}`, false},
		{"what identifies it counts for nothing", `{'f:metadata':{'f:labels':{'f:a':{}}}}`, `{'metadata':{'name':'n','namespace':'s','labels':{'a':'b'}}}`, `{'metadata':{'name':'n','namespace':'s','uid':'u','labels':{'a':'b'}}}`, true},
		{"nothing but a name", `{}`, `{'metadata':{'name':'n'}}`, `{'metadata':{'name':'n'}}`, true},
		{"fields by index are not known", `{'f:l':{'i:0':{}}}`, `{'l':[1]}`, `{'l':[1]}`, false},
		{"broken keys", `{'f:l':{'k:{':{}}}`, `{'l':[{'a':1}]}`, `{'l':[{'a':1}]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, live := parse(t, c.want), parse(t, c.live)
			want["apiVersion"], want["kind"] = "v1", "X"
			// Keys of items are JSON in JSON, so these are written by hand.
			fields := map[string]any{}
			text := strings.NewReplacer(`'k:{"`, `"k:{\"`, `":1,"`, `\":1,\"`, `":1}'`, `\":1}"`, `":2}'`, `\":2}"`, `":80,"`, `\":80,\"`, `":90,"`, `\":90,\"`, `":"TCP"}'`, `\":\"TCP\"}"`, `'v:"`, `"v:\"`, `"'`, `\""`).Replace(c.fields)
			if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), &fields); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			e := &managedEntry{apiVersion: "v1", fields: fields}
			if got := e.isAlreadyApplied(want, live); got != c.same {
				t.Errorf("got %t", got)
			}
			e.apiVersion = "v2"
			if e.isAlreadyApplied(want, live) {
				t.Error("an entry of another version counts")
			}
		})
	}
	if (*managedEntry)(nil).isAlreadyApplied(map[string]any{"apiVersion": "v1"}, nil) {
		t.Error("without an entry it is applied")
	}
}

// TestValuesAreComparedAsTheServerWritesThem: kinds of Kubernetes have bytes, quantities, times and numbers that are also texts.
func TestValuesAreComparedAsTheServerWritesThem(t *testing.T) {
	for manifest, want := range map[string]string{
		`{'apiVersion':'v1','kind':'Secret','data':{'a':'QUFB\nQUFB\n','b':''}}`:                                                                              `{'apiVersion':'v1','kind':'Secret','data':{'a':'QUFBQUFB','b':''}}`,
		`{'apiVersion':'v1','kind':'ConfigMap','binaryData':{'a':'QQ==\n'},'data':{'a':'1000m'}}`:                                                             `{'apiVersion':'v1','kind':'ConfigMap','binaryData':{'a':'QQ=='},'data':{'a':'1000m'}}`,
		`{'apiVersion':'v1','kind':'ResourceQuota','spec':{'hard':{'pods':100,'cpu':0.5,'memory':'1024Mi'}}}`:                                                 `{'apiVersion':'v1','kind':'ResourceQuota','spec':{'hard':{'pods':'100','cpu':'500m','memory':'1Gi'}}}`,
		`{'apiVersion':'v1','kind':'Service','spec':{'ports':[{'port':80,'targetPort':'80','unknown':'1000m'}]}}`:                                             `{'apiVersion':'v1','kind':'Service','spec':{'ports':[{'port':80,'targetPort':'80','unknown':'1000m'}]}}`,
		`{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','spec':{'renewTime':'2026-01-01T01:00:00.000000+01:00'}}`:                                      `{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','spec':{'renewTime':'2026-01-01T00:00:00.000000Z'}}`,
		`{'apiVersion':'v1','kind':'Secret','data':{'a':'no base64'}}`:                                                                                        `{'apiVersion':'v1','kind':'Secret','data':{'a':'no base64'}}`,
		`{'apiVersion':'v1','kind':'Secret','data':{'a':null},'type':'','immutable':false}`:                                                                   `{'apiVersion':'v1','kind':'Secret','data':{'a':null},'type':'','immutable':false}`,
		`{'apiVersion':'apiregistration.k8s.io/v1','kind':'APIService','spec':{'group':'g','caBundle':'QQ==\n'}}`:                                             `{'apiVersion':'apiregistration.k8s.io/v1','kind':'APIService','spec':{'group':'g','caBundle':'QQ=='}}`,
		`{'apiVersion':'example.org/v1','kind':'Quota','spec':{'cpu':'1000m'}}`:                                                                               `{'apiVersion':'example.org/v1','kind':'Quota','spec':{'cpu':'1000m'}}`,
		`{'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition','spec':{'conversion':{'webhook':{'clientConfig':{'caBundle':'QQ==\n'}}}}}`: `{'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition','spec':{'conversion':{'webhook':{'clientConfig':{'caBundle':'QQ=='}}}}}`,
	} {
		if got := normalForm(parse(t, manifest)); !equalJSON(got, parse(t, want)) {
			t.Errorf("%s: %v", manifest, got)
		}
	}
}

func FuzzOwnershipNeverPanics(f *testing.F) {
	f.Add(`{"metadata":{"managedFields":[{"manager":"sluice","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"}}`)
	f.Add(`{"metadata":{"managedFields":[{"manager":"sluice","operation":"Apply","fieldsV1":{"f:l":{"k:{\"a\":1}":{"f:a":{}},"v:1":{},"i:0":{}}}}]}}`, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"l":[{"a":1},1,null]}`)
	f.Fuzz(func(t *testing.T, live, manifest string) {
		obj, err := decodeObject([]byte(live))
		if err != nil {
			return
		}
		o, err := NewObject("f", 1, []byte(manifest))
		if err != nil {
			return
		}
		if _, err := compareWithWanted(obj, &o, nil); err != nil {
			t.Skip()
		}
	})
}
