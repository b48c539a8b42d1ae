/**
 * The uses of top-level names in a statement of a flat bundle: which, as what, and whether while
 * the file is run. Scopes are those of the language; `with` and `eval` do not occur.
 */

function patternNames(node, into) {
  if (node === null || node === undefined) return;
  if (node.type === 'Identifier') into.add(node.name);
  else if (node.type === 'ArrayPattern') for (const each of node.elements) patternNames(each, into);
  else if (node.type === 'ObjectPattern') {
    for (const each of node.properties) patternNames(each.value ?? each.argument, into);
  } else if (node.type === 'AssignmentPattern') patternNames(node.left, into);
  else if (node.type === 'RestElement') patternNames(node.argument, into);
}

const isFunction = (node) =>
  node.type === 'FunctionDeclaration' ||
  node.type === 'FunctionExpression' ||
  node.type === 'ArrowFunctionExpression';

/** Names that statements of a block declare. */
function blockNames(body, into) {
  for (const node of body) {
    if (node.type === 'VariableDeclaration') {
      for (const each of node.declarations) patternNames(each.id, into);
    } else if (node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') {
      into.add(node.id.name);
    }
  }
  return into;
}

/** The names that a node declares for what is inside it. */
function namesInside(node) {
  const names = new Set();
  if (isFunction(node)) {
    for (const each of node.params) patternNames(each, names);
    if (node.type === 'FunctionExpression' && node.id !== null) names.add(node.id.name);
  } else if (node.type === 'BlockStatement' || node.type === 'StaticBlock') {
    blockNames(node.body, names);
  } else if (node.type === 'ForStatement') blockNames([node.init].filter(Boolean), names);
  else if (node.type === 'ForOfStatement' || node.type === 'ForInStatement') {
    blockNames([node.left], names);
  } else if (node.type === 'CatchClause') patternNames(node.param, names);
  else if (node.type === 'SwitchStatement') {
    for (const each of node.cases) blockNames(each.consequent, names);
  } else if (node.type === 'ClassExpression' && node.id !== null) names.add(node.id.name);
  return names;
}

/** As what an identifier is used, by the node around it. */
function roleOf(parent, key, grand) {
  if (parent.type === 'CallExpression' && key === 'callee') return { as: 'call' };
  if (parent.type === 'NewExpression' && key === 'callee') return { as: 'new' };
  if (parent.type === 'BinaryExpression' && parent.operator === 'instanceof' && key === 'right') {
    return { as: 'instanceof' };
  }
  if (parent.type === 'MemberExpression' && key === 'object' && !parent.computed) {
    const isCall = grand?.type === 'CallExpression' && grand.callee === parent;
    return { as: isCall ? 'static' : 'value', member: parent.property.name };
  }
  return { as: 'value' };
}

/** Whether a child is run later than the node around it. */
function isLater(node, key) {
  if (isFunction(node)) return true;
  return node.type === 'PropertyDefinition' && key === 'value' && !node.static;
}

/**
 * @param node a top-level statement.
 * @param known the top-level names.
 * @returns `{ name, as, member?, atLoad, write }` for each use of a known name.
 */
export function collectUses(node, known) {
  const uses = [];
  const visit = (each, parents, scopes, atLoad) => {
    if (each.type === 'Identifier') {
      if (!known.has(each.name) || scopes.some((scope) => scope.has(each.name))) return;
      const [{ node: parent, key }, grand] = parents;
      const write =
        parent.type === 'UpdateExpression' ||
        (parent.type === 'AssignmentExpression' && key === 'left');
      uses.push({ name: each.name, atLoad, write, ...roleOf(parent, key, grand?.node) });
      return;
    }
    const names = namesInside(each);
    const inner = names.size === 0 ? scopes : [names, ...scopes];
    for (const [key, child] of Object.entries(each)) {
      if (child === null || typeof child !== 'object') continue;
      if (isName(each, key)) continue;
      const later = atLoad && !isLater(each, key);
      for (const one of Array.isArray(child) ? child : [child]) {
        if (typeof one?.type !== 'string') continue;
        visit(one, [{ node: each, key }, ...parents], inner, later);
      }
    }
  };
  visit(node, [], [], true);
  return uses;
}

/** Whether a child is a name that is not looked up: a property's, a label's, a declaration's. */
function isName(node, key) {
  if (key === 'property') return node.type === 'MemberExpression' && !node.computed;
  if (key === 'key') return !node.computed;
  if (key === 'label') return true;
  return key === 'id' && node.type !== 'VariableDeclarator';
}
