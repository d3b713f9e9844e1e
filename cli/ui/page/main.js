// Shows how many cards are in which state, again every five seconds.
const said = document.getElementById("said");
const table = document.getElementById("states");
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

async function show() {
  const answer = await fetch("fleet.json", { headers: { Authorization: `Bearer ${token}` } });
  const found = await answer.json();
  said.textContent = answer.ok ? `${found.cards.name.length} cards on ${found.nodes.name.length} nodes` : found.error;
  if (!answer.ok) return;
  table.tBodies[0]?.remove();
  const body = table.createTBody();
  found.states.forEach((state, number) => {
    const row = body.insertRow();
    row.insertCell().textContent = state;
    row.insertCell().textContent = found.cards.state.filter((one) => one === number).length;
  });
}

for (;;) {
  await show().catch((error) => { said.textContent = `lode ui does not answer: ${error.message}`; });
  await new Promise((done) => setTimeout(done, 5000));
}
